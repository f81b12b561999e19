//! The tables, and how they come to be.

use std::future::Future;
use std::time::Duration;

use sqlx::Pool;
use tokio::time::{Instant, sleep};

use super::database::Database;
use super::failure;
use super::lent::Lent;
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
    let deadline = Instant::now() + LONGEST;
    loop {
        let mut connection = Lent::for_transaction(pool.acquire().await.map_err(failure::unsent)?);
        match migrate_on::<DB>(&mut connection).await {
            Ok(()) => {
                connection.give_back();
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
) -> Result<(), StoreError> {
    let standing = match DB::version(connection).await {
        Err(error) if !failure::is_missing_table(&error) => return Err(failure::of(error)),
        answer => answer.ok().flatten(),
    };
    if standing >= Some(VERSION) {
        return Ok(());
    }
    DB::execute_all(connection, DB::migration())
        .await
        .map_err(failure::of_migration::<DB>)
}

const LONGEST: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(20);

/// The version of the tables that this crate works with: the number in each of the files.
pub(crate) const VERSION: i64 = 1;

/// What the tables are made by.
pub trait Schema: sqlx::Database {
    /// The statements that make the tables, and note their version.
    const SCHEMA: &'static str;

    /// The same, by one process after the other.
    fn migration() -> String;

    /// The version of the tables, if one is noted. One round trip.
    fn version(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;
}

macro_rules! schema {
    ($feature:literal, $database:ty, $connection:ty, $file:literal, $migration:literal) => {
        #[cfg(feature = $feature)]
        impl Schema for $database {
            const SCHEMA: &'static str = include_str!($file);

            fn migration() -> String {
                format!($migration, Self::SCHEMA)
            }

            async fn version(connection: &mut $connection) -> sqlx::Result<Option<i64>> {
                sqlx::query_scalar("SELECT max(version) FROM idempotence_version")
                    .fetch_one(connection)
                    .await
            }
        }
    };
}

schema!(
    "postgres",
    sqlx::Postgres,
    sqlx::PgConnection,
    "postgres/schema.sql",
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '1min'; \
     SELECT pg_advisory_xact_lock(7596550128246183013); {} COMMIT"
);
schema!(
    "mysql",
    sqlx::MySql,
    sqlx::MySqlConnection,
    "mysql/schema.sql",
    "DO GET_LOCK(LEFT(CONCAT('idempotence:', DATABASE()), 64), 60); {} \
     DO RELEASE_LOCK(LEFT(CONCAT('idempotence:', DATABASE()), 64))"
);
schema!(
    "sqlite",
    sqlx::Sqlite,
    sqlx::SqliteConnection,
    "sqlite/schema.sql",
    "BEGIN IMMEDIATE; {} COMMIT"
);

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
