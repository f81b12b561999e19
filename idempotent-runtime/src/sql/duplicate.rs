//! Which constraint a row violated.

use sqlx::Error;
use sqlx::error::DatabaseError;

/// Whether the error is a violation of this unique constraint or index, and not of another.
///
/// | database | what the constraint is called |
/// | --- | --- |
/// | PostgreSQL | its name; a primary key's is `orders_pkey`, if it was given none |
/// | MySQL | its name, alone or as `orders.uk_order`; a primary key's is `PRIMARY` |
/// | MariaDB | its name alone; a primary key's is `PRIMARY`, of whatever table |
/// | SQLite | its columns, as the message has them: `orders.user_id, orders.number`; of an index with expressions, the index's name |
///
/// For an `INSERT` of your own; [`insert_once`](super::insert_once) needs no name. A row that violates several indexes is an error that
/// names one of them, not always the one that you have in mind. On PostgreSQL the error has ended the transaction, unless a savepoint
/// was set before the `INSERT`.
///
/// Whoever takes every violation for a duplicate tells a user that all went well, when it was only the telephone number
/// that somebody else has. A deadlock is no violation, and a lock timeout neither: run the transaction again.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::sql::{self, sqlx};
///
/// fn answer(error: &sqlx::Error) -> &'static str {
///     if sql::duplicate_of(error, "uk_user_coupon") {
///         "you have that coupon"
///     } else {
///         "something went wrong"
///     }
/// }
/// # assert_eq!(answer(&sqlx::Error::PoolTimedOut), "something went wrong");
/// ```
pub fn duplicate_of(error: &Error, constraint: &str) -> bool {
    let Some(error) = error.as_database_error() else {
        return false;
    };
    !constraint.is_empty()
        && error.is_unique_violation()
        && (is_postgres_constraint(error, constraint)
            || is_mysql_constraint(error, constraint)
            || is_sqlite_constraint(error, constraint))
}

fn is_postgres_constraint(error: &dyn DatabaseError, constraint: &str) -> bool {
    error.constraint() == Some(constraint)
}

/// `Duplicate entry 'x' for key 'uk_order'`, in the server's language. The value comes before the name and may hold
/// anything, quotes and all; so this reads from the end.
#[cfg(feature = "mysql")]
fn is_mysql_constraint(error: &dyn DatabaseError, constraint: &str) -> bool {
    let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() else {
        return false;
    };
    let message = error.message();
    message
        .rfind('\'')
        .and_then(|end| message[..end].strip_suffix(constraint))
        .is_some_and(|before| before.ends_with(['\'', '.']))
}

#[cfg(not(feature = "mysql"))]
fn is_mysql_constraint(_: &dyn DatabaseError, _: &str) -> bool {
    false
}

/// `UNIQUE constraint failed: orders.user_id, orders.number`, or `: index 'uk_order'`. No value is told.
#[cfg(feature = "sqlite")]
fn is_sqlite_constraint(error: &dyn DatabaseError, constraint: &str) -> bool {
    let Some(error) = error.try_downcast_ref::<sqlx::sqlite::SqliteError>() else {
        return false;
    };
    let Some(name) = error.message().strip_prefix("UNIQUE constraint failed: ") else {
        return false;
    };
    let index = name
        .strip_prefix("index '")
        .and_then(|name| name.strip_suffix('\''));
    name == constraint || index == Some(constraint)
}

#[cfg(not(feature = "sqlite"))]
fn is_sqlite_constraint(_: &dyn DatabaseError, _: &str) -> bool {
    false
}
