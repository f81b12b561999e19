//! Recognises a violated unique constraint.

use sqlx::Error;
use sqlx::error::DatabaseError;

/// Whether the error is a violation of this unique constraint or index.
///
/// | database | name of the constraint |
/// | --- | --- |
/// | PostgreSQL | its name; the default of a primary key is `orders_pkey` |
/// | MySQL | its name, alone or as `orders.uk_order`; `PRIMARY` for a primary key |
/// | MariaDB | its name alone; `PRIMARY` for the primary key of any table |
/// | SQLite | its columns as in the message: `orders.user_id, orders.number`; the name of an index with expressions |
///
/// Use this for a hand-written `INSERT`; [`insert_once`](crate::sql::insert_once) needs no name. If a row violates several indexes,
/// the error names only one of them, perhaps not the expected one. On PostgreSQL the error has ended the transaction, unless a
/// savepoint was set before the `INSERT`.
///
/// Do not treat every violation as a duplicate: a telephone number that another user already has would then be reported as
/// success. A deadlock or a lock timeout is not a violation: run the transaction again.
///
/// ```
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

/// Reads `Duplicate entry 'x' for key 'uk_order'`, in any language of the server. It reads from the end, because the value
/// before the name may contain quotes.
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

/// Reads `UNIQUE constraint failed: orders.user_id, orders.number`, or `: index 'uk_order'`. The message has no values.
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
