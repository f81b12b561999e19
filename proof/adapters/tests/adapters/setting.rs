//! What the tests of all libraries share: a database, and the handle of the calls.

use std::error::Error as StdError;
use std::time::Duration;

use idempotence::{Error, GuardedCall, Idempotency, MemoryStore, sql};
use sqlx::{MySql, Pool, Postgres, Sqlite};
use support::blocked::Blocked;

/// How long a test waits for an event that must happen, also on a slow machine.
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(2);

/// How long a duplicate waits, if its test is not about that time.
const DUPLICATE_WAIT: Duration = Duration::from_mins(1);

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

/// What differs between the databases.
pub(crate) trait Subject: Blocked {
    /// Makes all rows old.
    const EXPIRE: &'static str;
    /// Selects four values and NULL, once for each account.
    const VALUES: &'static str;
    /// The constraint of the accounts, if the database names it in a field of the error.
    const CONSTRAINT: Option<&'static str> = None;
    /// Is refused in favour of another transaction. `None`: the database has no server.
    const CONFLICT: Option<&'static str> = None;
    /// Ends the own session.
    const KILL: &'static str = "";
    /// Whether a statement that fails breaks its transaction.
    const BREAKS: bool = false;
}

impl Subject for Postgres {
    const EXPIRE: &'static str =
        "UPDATE idempotence SET expires_at = statement_timestamp() - interval '1 hour'";
    const VALUES: &'static str = "SELECT $1, $2, $3, $4, NULL::bigint FROM account";
    const CONSTRAINT: Option<&'static str> = Some("account_pkey");
    const CONFLICT: Option<&'static str> =
        Some("DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '40001'; END $$");
    const KILL: &'static str = "SELECT pg_terminate_backend(pg_backend_pid())";
    const BREAKS: bool = true;
}

impl Subject for MySql {
    const EXPIRE: &'static str =
        "UPDATE idempotence SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR";
    const VALUES: &'static str = "SELECT CAST(? AS CHAR), CAST(? AS BINARY), CAST(? AS SIGNED), CAST(? AS DOUBLE), \
                                  CAST(NULL AS SIGNED) FROM account";
    const CONFLICT: Option<&'static str> = Some(
        "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found when trying to get lock'",
    );
    const KILL: &'static str = "KILL CONNECTION_ID()";
}

impl Subject for Sqlite {
    const EXPIRE: &'static str = "UPDATE idempotence SET expires_at = 0";
    const VALUES: &'static str = "SELECT ?1, ?2, ?3, ?4, NULL FROM account";
}

/// A database with the tables, and a pool of sqlx that observes it.
pub(crate) struct Database<DB: Subject> {
    pub(crate) url: String,
    pub(crate) pool: Pool<DB>,
    pub(crate) handle: Idempotency,
}

impl<DB: Subject> Database<DB> {
    pub(crate) async fn new() -> Self {
        let database = Self::empty().await;
        sql::migrate(&database.pool).await.unwrap();
        // The table of payments has no unique index, so it would accept a second payment.
        for table in [
            "CREATE TABLE payment (order_no BIGINT NOT NULL)",
            "CREATE TABLE account (id INT PRIMARY KEY, cents INT NOT NULL)",
            "INSERT INTO account VALUES (1, 0), (2, 0)",
        ] {
            database.execute(table).await;
        }
        database
    }

    /// A database without tables.
    pub(crate) async fn empty() -> Self {
        let url = DB::url();
        let pool = DB::pool(&url, &[]).await;
        // A busy machine may take longer than the usual deadline.
        let handle = Idempotency::builder(MemoryStore::new()).deadline(MAX_WAIT);
        let handle = handle.build().unwrap();
        Self { url, pool, handle }
    }

    /// The port of the server.
    pub(crate) fn port(&self) -> u16 {
        let after = self.url.rsplit(':').next().unwrap();
        let port = after.split('/').next().unwrap();
        port.parse().unwrap()
    }

    pub(crate) fn paying(&self, order: u32) -> GuardedCall {
        let call = self.handle.call("orders.pay").key(&order);
        call.ttl(Duration::from_hours(1)).wait(DUPLICATE_WAIT)
    }

    pub(crate) async fn execute(&self, statement: &'static str) {
        use sqlx::Executor as _;

        self.pool.execute(statement).await.unwrap();
    }

    pub(crate) async fn payments(&self) -> i64 {
        self.number("SELECT count(*) FROM payment").await
    }

    pub(crate) async fn number(&self, statement: &'static str) -> i64 {
        let number = sqlx::query_scalar(statement);
        number.fetch_one(&self.pool).await.unwrap()
    }
}

/// The texts of an error and its causes.
pub(crate) fn causes(error: &dyn StdError) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", causes(cause)),
        None => error.to_string(),
    }
}
