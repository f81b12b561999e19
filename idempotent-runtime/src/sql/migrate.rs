//! The tables, and how they come to be.

use std::time::Duration;

use sqlx::Pool;
use tokio::time::{Instant, sleep};

use super::checkout::Checkout;
use super::database::Database;
use super::failure;
use super::retryable::is_retryable;
use crate::store::StoreError;

/// The statements that make the tables on `DB`, for those who apply schemas by a tool of their own.
///
/// They may be applied again: what stands there is left as it is. On MySQL they need the current database, on
/// PostgreSQL the tables are made in the first schema of the `search_path`.
pub fn schema<DB: Database>() -> &'static str {
    DB::SCHEMA
}

/// Makes the tables that are missing. May be called at every start, by any number of processes at once.
///
/// Costs one round trip where the tables are as they should be, and needs no more than to read
/// `idempotence_version` then. Tables that a newer version of this crate has made are left as they are.
///
/// # Errors
///
/// [`Misconfigured`](crate::StoreErrorKind::Misconfigured) if the user of the database may not make tables: the text
/// says what to have done by one who may.
///
/// # Cancellation
///
/// A dropped future leaves nothing half made on PostgreSQL and SQLite. On MySQL, which commits each table by
/// itself, the next call makes the rest.
pub async fn migrate<DB: Database>(pool: &Pool<DB>) -> Result<(), StoreError> {
    let place = failure::place(pool);
    let deadline = Instant::now() + RETRY_TIMEOUT;
    loop {
        let acquired = pool.acquire().await;
        let acquired = acquired.map_err(|error| failure::acquire_failed(error, pool))?;
        let mut connection = Checkout::for_transaction(acquired);
        match migrate_on::<DB>(&mut connection, &place).await {
            Ok(()) => {
                connection.release();
                return Ok(());
            }
            // A transaction may be open there, so it is not given back.
            Err(error) if is_retryable(&error) && Instant::now() < deadline => {
                drop(connection);
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes the tables that are missing, by a connection that is of no use if that fails.
pub(crate) async fn migrate_on<DB: Database>(
    connection: &mut DB::Connection,
    place: &str,
) -> Result<(), StoreError> {
    let standing = match DB::version(connection).await {
        Err(error) if !failure::is_missing_table(&error) => {
            return Err(failure::statement_failed(error, place.to_owned()));
        }
        answer => answer.ok().flatten(),
    };
    if standing >= Some(VERSION) {
        return Ok(());
    }
    DB::execute_all(connection, DB::migration())
        .await
        .map_err(|error| failure::migration_failed(error, DB::SCHEMA, place.to_owned()))
}

const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// The version of the tables that this crate works with: the number in each of the files.
pub(crate) const VERSION: i64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_note_the_version_that_is_asked_for() {
        #[cfg(feature = "mysql")]
        assert!(schema::<sqlx::MySql>().contains(&format!("VALUES ({VERSION})")));
        #[cfg(feature = "postgres")]
        assert!(schema::<sqlx::Postgres>().contains(&format!("VALUES ({VERSION})")));
        #[cfg(feature = "sqlite")]
        assert!(schema::<sqlx::Sqlite>().contains(&format!("VALUES ({VERSION})")));
    }
}
