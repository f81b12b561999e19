//! What the tests of all libraries share: a database, and the handle of the calls.

use std::error::Error as StdError;
use std::time::Duration;

use idempotence::{Error, GuardedCall, Idempotency, MemoryStore, sql};
use idempotence_test_servers::PostgresServer;
use sqlx::PgPool;
use tokio::time::timeout;

/// How long a test waits for an event that must happen, also on a slow machine.
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(2);

/// The error of a body: of the guard, or of the library.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble<E: StdError + 'static> {
    #[error("refused")]
    Guard(#[from] Error),
    #[error("the statement failed")]
    Library(#[source] E),
}

impl<E: StdError + 'static> Trouble<E> {
    /// The error of the guarded call. Panics on any other error.
    pub(crate) fn refusal(self) -> Error {
        match self {
            Self::Guard(error) => error,
            Self::Library(error) => panic!("expected an error of the guarded call, got {error:?}"),
        }
    }
}

/// A database with the tables, and a pool of sqlx that observes it.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) pool: PgPool,
    pub(crate) handle: Idempotency,
}

impl Database {
    pub(crate) async fn new() -> Self {
        let database = Self::empty().await;
        sql::migrate(&database.pool).await.unwrap();
        let tables = "CREATE TABLE payment (order_no INT NOT NULL); CREATE TABLE account (id INT PRIMARY KEY, cents INT NOT NULL); \
                      INSERT INTO account VALUES (1, 0), (2, 0)";
        let tables = sqlx::raw_sql(tables).execute(&database.pool);
        tables.await.unwrap();
        database
    }

    /// A database without tables.
    pub(crate) async fn empty() -> Self {
        let url = PostgresServer::shared().unwrap().database().unwrap();
        let pool = PgPool::connect(&url).await.unwrap();
        let handle = Idempotency::new(MemoryStore::new());
        Self { url, pool, handle }
    }

    pub(crate) fn paying(&self, order: u32) -> GuardedCall {
        let call = self.handle.call("orders.pay").key(&order);
        call.ttl(Duration::from_hours(1))
    }

    pub(crate) async fn payments(&self) -> i64 {
        self.number("SELECT count(*) FROM payment").await
    }

    pub(crate) async fn number(&self, statement: &'static str) -> i64 {
        let number = sqlx::query_scalar(statement);
        number.fetch_one(&self.pool).await.unwrap()
    }

    /// Returns once a statement of the database waits for a lock.
    pub(crate) async fn blocked(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = async { while self.number(waiting).await < 1 {} };
        timeout(MAX_WAIT, waiting).await.unwrap();
    }
}

/// The texts of an error and its causes.
pub(crate) fn causes(error: &dyn StdError) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", causes(cause)),
        None => error.to_string(),
    }
}
