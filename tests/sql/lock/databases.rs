//! A fresh database of each kind with the tables, and the statements of the tests of locks.

use std::future::Future;
use std::time::Duration;

use idempotent_sql::sql::{self, Lock, LockGuard, sqlx};
use sqlx::{AssertSqlSafe, Pool, Transaction, raw_sql};
use tokio::time::timeout;

use support::databases::{Fresh, Kind};

pub(crate) async fn fresh<DB: Subject>() -> Fresh<DB> {
    let fresh = Fresh::new().await;
    sql::migrate(&fresh.pool).await.unwrap();
    fresh
}

/// Takes the lock `trade:42` as soon as it is free. Takes it again if its lease expired before the answer: this is an error, and
/// happens with a short lease on a slow machine.
pub(crate) async fn taken<DB: Subject>(lock: &Lock<DB>, lease: Duration) -> LockGuard<DB> {
    let taking = async {
        loop {
            match lock.take("trade:42", lease).await {
                Ok(Some(held)) => break held,
                Ok(None) => {}
                Err(sqlx::Error::InvalidArgument(error)) if error.contains("expired before") => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(Duration::from_mins(2), taking).await.unwrap()
}

/// The statements that the tests need besides the lock.
pub(crate) trait Subject: Kind {
    /// Statements that give a session unusual settings.
    const STRANGE: &'static [&'static str];

    /// Runs a statement.
    fn run_raw(
        pool: &Pool<Self>,
        statement: &'static str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// A transaction that blocks writes to the row of the lock `trade:42`.
    fn block(pool: &Pool<Self>) -> impl Future<Output = Transaction<'static, Self>> + Send;

    /// Writes to the trade 42 with a fence. Returns the number of changed rows.
    fn write_with_fence(pool: &Pool<Self>, fence: i64) -> impl Future<Output = u64> + Send;
}

macro_rules! subject {
    ($database:ty, $strange:expr) => {
        impl Subject for $database {
            const STRANGE: &'static [&'static str] = $strange;

            async fn run_raw(pool: &Pool<Self>, statement: &'static str) -> sqlx::Result<()> {
                raw_sql(statement).execute(pool).await.map(drop)
            }

            async fn block(pool: &Pool<Self>) -> Transaction<'static, Self> {
                let block = "UPDATE idempotence_lock SET fence = fence + 1 WHERE name = 'trade:42'";
                let mut tx = pool.begin().await.unwrap();
                raw_sql(block).execute(&mut *tx).await.unwrap();
                tx
            }

            async fn write_with_fence(pool: &Pool<Self>, fence: i64) -> u64 {
                let write =
                    format!("UPDATE trade SET fence = {fence} WHERE id = 42 AND fence < {fence}");
                let done = raw_sql(AssertSqlSafe(write)).execute(pool).await.unwrap();
                done.rows_affected()
            }
        }
    };
}

subject!(
    sqlx::Postgres,
    &[
        "SET TimeZone = 'Pacific/Kiritimati'",
        "SET default_transaction_isolation = 'serializable'",
    ]
);
subject!(
    sqlx::MySql,
    &[
        "SET time_zone = '+13:00'",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ]
);
// Sessions of SQLite have neither a time zone nor an isolation level.
subject!(sqlx::Sqlite, &[]);
