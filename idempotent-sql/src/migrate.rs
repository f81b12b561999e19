//! Makes the tables.

use std::time::Duration;

use idempotent_driver::port::failure;
use idempotent_runtime::sql::is_retryable;
use idempotent_runtime::store::StoreError;
use sqlx::Pool;
use tokio::time::{Instant, sleep};

use self::failed::migration_failed;
use super::database::Database;
use super::database::checkout::Checkout;

mod failed;

/// The statements that make the tables on `DB`, for a migration tool.
///
/// They may be applied again: existing tables do not change. MySQL makes the tables in the current database, PostgreSQL in the
/// first schema of the `search_path`. Keys and names are compared byte by byte.
///
/// PostgreSQL:
///
#[doc = concat!("```sql\n", include_str!("postgres/schema.sql"), "```")]
///
/// MySQL and MariaDB:
///
#[doc = concat!("```sql\n", include_str!("mysql/schema.sql"), "```")]
///
/// SQLite:
///
#[doc = concat!("```sql\n", include_str!("sqlite/schema.sql"), "```")]
pub fn schema<DB: Database>() -> &'static str {
    DB::SCHEMA
}

/// The statements of one version of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The version, from 1.
    pub version: i64,
    /// The statements that lead to this version from the version before.
    pub statements: &'static str,
}

/// The statements of each version of the tables on `DB`, for migrations that are kept as files: one file for each version. A later
/// version of this crate may have more.
pub fn migrations<DB: Database>() -> &'static [Migration] {
    const {
        &[Migration {
            version: VERSION,
            statements: DB::SCHEMA,
        }]
    }
}

/// Makes the tables that are missing. Any number of processes may call this at every start, at the same time.
///
/// If the tables exist, this costs two round trips and needs only `SELECT` on `idempotence_version`. A table that was dropped is made
/// again. Tables of a newer version of this crate do not change.
///
/// # Errors
///
/// [`Misconfigured`](idempotent_runtime::StoreErrorKind::Misconfigured) if the user of the database may not make tables. The source of the
/// error contains the statements, for a user who may make tables.
///
/// # Cancellation
///
/// After a dropped future PostgreSQL and SQLite have all tables or none. MySQL commits each table separately, and the next call
/// makes the missing tables.
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
            // A transaction may be open on the connection, so it does not return to the pool.
            Err(error) if is_retryable(&error) && Instant::now() < deadline => {
                drop(connection);
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes the tables that are missing. After a failure the connection must be closed.
pub(crate) async fn migrate_on<DB: Database>(
    connection: &mut DB::Connection,
    place: &str,
) -> Result<(), StoreError> {
    let version = match DB::version(connection).await {
        Err(error) if !failure::is_missing_table(&error) => {
            return Err(failure::statement_failed(error, place.to_owned()).into());
        }
        answer => answer.ok().flatten(),
    };
    if version > Some(VERSION) || version == Some(VERSION) && !lacks_table::<DB>(connection).await {
        return Ok(());
    }
    DB::execute_all(connection, DB::migration())
        .await
        .map_err(|error| migration_failed(error, DB::SCHEMA, place))
}

/// Whether a table is missing although the version is stored. A user who may not read the tables cannot know.
async fn lacks_table<DB: Database>(connection: &mut DB::Connection) -> bool {
    let read = DB::execute_all(connection, READ_NOTHING.to_owned()).await;
    read.is_err_and(|error| failure::is_missing_table(&error))
}

const READ_NOTHING: &str = "SELECT 1 FROM idempotence, idempotence_lock WHERE 1 = 0";

const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// The version of the tables that this crate uses: the number in each `schema.sql`.
pub(crate) const VERSION: i64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_store_the_current_version() {
        #[cfg(feature = "mysql")]
        assert!(schema::<sqlx::MySql>().contains(&format!("VALUES ({VERSION})")));
        #[cfg(feature = "postgres")]
        assert!(schema::<sqlx::Postgres>().contains(&format!("VALUES ({VERSION})")));
        #[cfg(feature = "sqlite")]
        assert!(schema::<sqlx::Sqlite>().contains(&format!("VALUES ({VERSION})")));
    }
}
