//! The last line: a unique index of the caller's own table lets a row in once.

use sqlx::error::DatabaseError;
use sqlx::query::Query;
use sqlx::{Connection, Error};

use super::connection::AsConnection;
use super::database::{Database, Sealed as _};
use super::duplicate::duplicate_of;
use super::syntax::Syntax as _;

type Arguments<DB> = <DB as sqlx::Database>::Arguments;
type QueryResult<DB> = <DB as sqlx::Database>::QueryResult;

/// Runs an `INSERT` of one row, and tells a violation of this unique constraint or index from every other error.
///
/// ```
/// # #[cfg(feature = "postgres")] mod example {
/// # use idempotent_runtime as idempotence;
/// use idempotence::sql::{self, Insertion, sqlx};
///
/// # async fn take(tx: &mut sqlx::Transaction<'_, sqlx::Postgres>, user: i64, coupon: i64) -> sqlx::Result<()> {
/// let insert = sqlx::query("INSERT INTO user_coupon (user_id, coupon_id) VALUES ($1, $2)");
/// match sql::insert_once(tx, "uk_user_coupon", insert.bind(user).bind(coupon)).await? {
///     Insertion::Inserted(_) => println!("the coupon is yours"),
///     Insertion::AlreadyThere => println!("you have that coupon"),
/// }
/// # Ok(()) }
/// # }
/// ```
///
/// What the constraint is called, see [`duplicate_of`]; on SQLite, the name of an index does, too. A transaction stays
/// usable whatever the statement says, also on PostgreSQL, where a savepoint holds it.
///
/// It waits for a transaction that inserted the same row and is still open, as long as the database's own lock timeout
/// lets it. A deadlock or a timeout there is an error, and never a duplicate: whether there is one, is not decided.
///
/// A constraint that is deferred to the end of the transaction is not seen here: the commit fails.
///
/// Round trips: one; in a transaction on PostgreSQL three. On PostgreSQL, sqlx must know of the transaction: in
/// one that was begun by a `BEGIN` of the caller's, the violation stays an error, because it ended the transaction.
///
/// # Errors
///
/// Those of the database, violations of other constraints among them. [`InvalidArgument`](Error::InvalidArgument) if
/// nothing was inserted and nothing violated: `IGNORE` and `ON CONFLICT` hide which constraint it was. An
/// upsert is taken for an insert: do not write one here.
///
/// # Cancellation
///
/// Whether a dropped call inserted the row is not known: roll the transaction back, or ask again.
pub async fn insert_once<C: AsConnection>(
    connection: &mut C,
    constraint: &str,
    insert: Query<'_, C::Database, Arguments<C::Database>>,
) -> sqlx::Result<Insertion<QueryResult<C::Database>>> {
    let connection = connection.as_connection();
    let guarded = C::Database::FAILURE_ENDS_TRANSACTION && connection.is_in_transaction();
    if guarded {
        C::Database::execute_all(connection, "SAVEPOINT idempotence".into()).await?;
    }
    let inserted = C::Database::execute_query(connection, insert).await;
    if guarded {
        let end = if inserted.is_ok() {
            "RELEASE SAVEPOINT idempotence"
        } else {
            "ROLLBACK TO SAVEPOINT idempotence; RELEASE SAVEPOINT idempotence"
        };
        C::Database::execute_all(connection, end.into()).await?;
    }
    match inserted {
        Ok(result) if C::Database::rows(&result) == 0 => Err(Error::InvalidArgument(
            "the statement inserted nothing, and hid why".into(),
        )),
        Ok(result) => Ok(Insertion::Inserted(result)),
        Err(error) if violates::<C::Database>(connection, &error, constraint).await? => {
            let usable = guarded
                || !C::Database::FAILURE_ENDS_TRANSACTION
                || C::Database::execute_all(connection, "SELECT 1".into())
                    .await
                    .is_ok();
            if usable {
                Ok(Insertion::AlreadyThere)
            } else {
                Err(error)
            }
        }
        Err(error) => Err(error),
    }
}

/// What became of an `INSERT`.
#[derive(Debug, Clone)]
#[must_use = "a duplicate inserted nothing"]
pub enum Insertion<R> {
    /// The row is in, with what the database said of it: the number that it made for the row, say.
    Inserted(R),
    /// An equal row was there before; nothing was inserted.
    AlreadyThere,
}

async fn violates<DB: Database>(
    connection: &mut DB::Connection,
    error: &Error,
    constraint: &str,
) -> sqlx::Result<bool> {
    let database_error = error.as_database_error();
    if !database_error.is_some_and(DatabaseError::is_unique_violation) {
        return Ok(false);
    }
    if duplicate_of(error, constraint) {
        return Ok(true);
    }
    let name = DB::violated_name(connection, constraint).await?;
    Ok(name.is_some_and(|name| duplicate_of(error, &name)))
}
