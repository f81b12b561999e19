//! A fresh database of each kind, with the tables.

use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_runtime::sql::{self, Database, Lock, sqlx};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Pool, Transaction};

/// A database with nothing in it but the tables.
pub(crate) struct Fresh<DB: Subject> {
    pub(crate) pool: Pool<DB>,
    pub(crate) url: String,
    folder: Option<PathBuf>,
}

impl<DB: Subject> Fresh<DB> {
    pub(crate) async fn new() -> Self {
        let (url, folder) = DB::database();
        let pool = DB::connect(&url, &[]).await;
        sql::migrate(&pool).await.unwrap();
        Self { pool, url, folder }
    }

    pub(crate) fn lock(&self) -> Lock<DB> {
        Lock::new(self.pool.clone())
    }
}

impl<DB: Subject> Drop for Fresh<DB> {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}

/// What the tests need of a database beside the lock.
pub(crate) trait Subject: Database {
    /// What makes a session a strange one.
    const STRANGE: &'static [&'static str];

    /// An empty database, and what to remove when it is not needed any more.
    fn database() -> (String, Option<PathBuf>);

    /// A pool each of whose sessions begins with these statements.
    fn connect(
        url: &str,
        statements: &'static [&'static str],
    ) -> impl Future<Output = Pool<Self>> + Send;

    /// Runs a statement.
    fn run_raw(
        pool: &Pool<Self>,
        statement: &'static str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// A transaction that keeps others from writing the row of the lock `trade:42`.
    fn block(pool: &Pool<Self>) -> impl Future<Output = Transaction<'static, Self>> + Send;

    /// What a holder of this fence writes to the trade 42; how many rows that is.
    fn write_with_fence(pool: &Pool<Self>, fence: i64) -> impl Future<Output = u64> + Send;
}

const BLOCK: &str = "UPDATE idempotence_lock SET fence = fence + 1 WHERE name = 'trade:42'";
const PATIENCE: Duration = Duration::from_mins(2);
const CONNECTIONS: u32 = 12;

impl Subject for sqlx::Postgres {
    const STRANGE: &'static [&'static str] = &[
        "SET TimeZone = 'Pacific/Kiritimati'",
        "SET default_transaction_isolation = 'serializable'",
    ];

    fn database() -> (String, Option<PathBuf>) {
        let server = PostgresServer::shared().unwrap();
        (server.database().unwrap(), None)
    }

    async fn connect(url: &str, statements: &'static [&'static str]) -> Pool<Self> {
        PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    for statement in statements {
                        sqlx::raw_sql(*statement).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .connect(url)
            .await
            .unwrap()
    }

    async fn run_raw(pool: &Pool<Self>, statement: &'static str) -> sqlx::Result<()> {
        sqlx::raw_sql(statement).execute(pool).await.map(drop)
    }

    async fn block(pool: &Pool<Self>) -> Transaction<'static, Self> {
        let mut tx = pool.begin().await.unwrap();
        sqlx::raw_sql(BLOCK).execute(&mut *tx).await.unwrap();
        tx
    }

    async fn write_with_fence(pool: &Pool<Self>, fence: i64) -> u64 {
        let write = sqlx::query("UPDATE trade SET fence = $1 WHERE id = 42 AND fence < $1");
        let done = write.bind(fence).execute(pool).await.unwrap();
        done.rows_affected()
    }
}

impl Subject for sqlx::MySql {
    const STRANGE: &'static [&'static str] = &[
        "SET time_zone = '+13:00'",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ];

    fn database() -> (String, Option<PathBuf>) {
        let server = MariaDbServer::shared().unwrap();
        (server.database().unwrap(), None)
    }

    async fn connect(url: &str, statements: &'static [&'static str]) -> Pool<Self> {
        MySqlPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    for statement in statements {
                        sqlx::raw_sql(*statement).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .connect(url)
            .await
            .unwrap()
    }

    async fn run_raw(pool: &Pool<Self>, statement: &'static str) -> sqlx::Result<()> {
        sqlx::raw_sql(statement).execute(pool).await.map(drop)
    }

    async fn block(pool: &Pool<Self>) -> Transaction<'static, Self> {
        let mut tx = pool.begin().await.unwrap();
        sqlx::raw_sql(BLOCK).execute(&mut *tx).await.unwrap();
        tx
    }

    async fn write_with_fence(pool: &Pool<Self>, fence: i64) -> u64 {
        let write = sqlx::query("UPDATE trade SET fence = ? WHERE id = 42 AND fence < ?");
        let done = write.bind(fence).bind(fence).execute(pool).await.unwrap();
        done.rows_affected()
    }
}

impl Subject for sqlx::Sqlite {
    // Sessions of SQLite have neither a time zone nor an isolation level.
    const STRANGE: &'static [&'static str] = &[];

    fn database() -> (String, Option<PathBuf>) {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("sql_lock-{}-{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("locks.db");
        (format!("sqlite://{}", file.display()), Some(folder))
    }

    async fn connect(url: &str, statements: &'static [&'static str]) -> Pool<Self> {
        assert!(statements.is_empty());
        let options: SqliteConnectOptions = url.parse().unwrap();
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(PATIENCE);
        SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE)
            .connect_with(options)
            .await
            .unwrap()
    }

    async fn run_raw(pool: &Pool<Self>, statement: &'static str) -> sqlx::Result<()> {
        sqlx::raw_sql(statement).execute(pool).await.map(drop)
    }

    async fn block(pool: &Pool<Self>) -> Transaction<'static, Self> {
        let mut tx = pool.begin().await.unwrap();
        sqlx::raw_sql(BLOCK).execute(&mut *tx).await.unwrap();
        tx
    }

    async fn write_with_fence(pool: &Pool<Self>, fence: i64) -> u64 {
        let write = sqlx::query("UPDATE trade SET fence = $1 WHERE id = 42 AND fence < $1");
        let done = write.bind(fence).execute(pool).await.unwrap();
        done.rows_affected()
    }
}
