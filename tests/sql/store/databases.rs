//! Fresh databases, stores in them, and the statements of the tests.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use idempotent_runtime::{Store, StoreError, StoreErrorKind};
use idempotent_sql::sql::sqlx::pool::PoolOptions;
use idempotent_sql::sql::sqlx::{
    self, AssertSqlSafe, Connection, MySql, Pool, Postgres, Sqlite, Transaction, query_scalar,
    raw_sql,
};
use idempotent_sql::{MySqlStore, PostgresStore, SqlStore, SqliteStore};

use support::databases::Kind;

pub(crate) const VALUE: Bytes = Bytes::from_static(b"value");
pub(crate) const OTHER: Bytes = Bytes::from_static(b"other");
pub(crate) const TTL: Duration = Duration::from_mins(10);
pub(crate) const SHORT: Duration = Duration::from_millis(1);
/// Far longer than any operation takes.
pub(crate) const MAX_WAIT: Duration = Duration::from_mins(2);

/// The statements of the tests for one database.
pub(crate) trait Fresh: Kind {
    /// Stores a record under `key`, and overwrites an existing record.
    const PUT: &'static str;

    /// An expression for a time in the past.
    const PAST: &'static str;

    /// Runs statements without values.
    fn run(pool: &Pool<Self>, statements: &str) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Makes the record of the key `locked` live, and locks it until the transaction ends.
    fn lock(transaction: &mut Transaction<'_, Self>) -> impl Future<Output = ()> + Send;

    /// Reads records in an open transaction.
    fn look(transaction: &mut Transaction<'_, Self>) -> impl Future<Output = ()> + Send;

    /// Runs a statement that returns a number.
    fn number(pool: &Pool<Self>, statement: &str) -> impl Future<Output = i64> + Send;
}

macro_rules! fresh {
    ($database:ty, $put:literal, $past:literal, $future:literal, $key:literal) => {
        impl Fresh for $database {
            const PUT: &'static str = $put;
            const PAST: &'static str = $past;

            async fn run(pool: &Pool<Self>, statements: &str) -> sqlx::Result<()> {
                let statements = raw_sql(AssertSqlSafe(statements.to_owned()));
                statements.execute(pool).await.map(drop)
            }

            async fn lock(transaction: &mut Transaction<'_, Self>) {
                let lock = format!(
                    "UPDATE idempotence SET value = 'held', expires_at = {} WHERE {} = 'locked'",
                    $future, $key
                );
                let lock = raw_sql(AssertSqlSafe(lock));
                lock.execute(&mut **transaction).await.unwrap();
            }

            async fn look(transaction: &mut Transaction<'_, Self>) {
                let look = raw_sql("SELECT value FROM idempotence");
                look.fetch_all(&mut **transaction).await.unwrap();
            }

            async fn number(pool: &Pool<Self>, statement: &str) -> i64 {
                let statement = query_scalar(AssertSqlSafe(statement.to_owned()));
                statement.fetch_one(pool).await.unwrap()
            }
        }
    };
}

fresh!(
    Postgres,
    "INSERT INTO idempotence (key, value, expires_at) \
     VALUES ('key', 'racer', now() + interval '1 min') \
     ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value",
    "now() - interval '1 hour'",
    "now() + interval '1 hour'",
    "key"
);
fresh!(
    MySql,
    "INSERT INTO idempotence (`key`, value, expires_at) \
     VALUES ('key', 'racer', UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE) \
     ON DUPLICATE KEY UPDATE value = 'racer'",
    "UTC_TIMESTAMP(6) - INTERVAL 1 HOUR",
    "UTC_TIMESTAMP(6) + INTERVAL 1 HOUR",
    "`key`"
);
fresh!(
    Sqlite,
    "INSERT INTO idempotence (key, value, expires_at) VALUES ('key', x'00', 9000000000000000) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    "1000000",
    "9000000000000000",
    "key"
);

pub(crate) async fn store<DB: Fresh>() -> SqlStore<DB> {
    connected(&DB::url()).await
}

/// A store at `url`. On a slow machine the server may need longer than the five seconds of one attempt.
pub(crate) async fn connected<DB: Fresh>(url: &str) -> SqlStore<DB> {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match SqlStore::connect(url).await {
            Ok(store) => return store,
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error:?}");
                assert!(Instant::now() < deadline, "{error:?}");
            }
        }
    }
}

/// A store with one connection to the database at `url`.
pub(crate) async fn narrow<DB: Fresh>(url: &str) -> SqlStore<DB> {
    let store = connected::<DB>(url).await;
    let options: <DB::Connection as Connection>::Options =
        (*store.pool().connect_options()).clone();
    // A connection that is still closing may have locked the file of SQLite.
    store.pool().close().await;
    SqlStore::new(
        PoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(options),
    )
}

pub(crate) async fn postgres() -> PostgresStore {
    store().await
}

pub(crate) async fn mysql() -> MySqlStore {
    store().await
}

pub(crate) async fn sqlite() -> SqliteStore {
    store().await
}

/// Stores a record under `key` that has expired.
pub(crate) async fn leave_expired(store: &impl Store, key: &str) {
    let deadline = Instant::now() + MAX_WAIT;
    // On a slow machine another operation may have locked the row for longer than a claim waits.
    while let Err(error) = store.claim(key, &VALUE, SHORT).await {
        assert_eq!(error.kind(), StoreErrorKind::NotApplied, "{error:?}");
        assert!(Instant::now() < deadline, "{error:?}");
    }
    while store.get(key).await.unwrap().is_some() {
        assert!(Instant::now() < deadline);
    }
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, StoreError>) -> StoreErrorKind {
    result.unwrap_err().kind()
}

/// The text of an error and its sources.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}
