//! A fresh database of each kind.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs};

use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_sql::sql::sqlx::mysql::MySqlConnectOptions;
use idempotent_sql::sql::sqlx::pool::PoolOptions;
use idempotent_sql::sql::sqlx::postgres::PgConnectOptions;
use idempotent_sql::sql::sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous,
};
use idempotent_sql::sql::sqlx::{
    self, ColumnIndex, Decode, Encode, Executor, IntoArguments, MySql, Pool, Postgres, Sqlite,
    Type, raw_sql,
};
use idempotent_sql::sql::{AsConnection, Database, Lock};

use crate::implies::Implies;

/// An empty database and a pool of connections.
pub struct Fresh<DB: Kind> {
    pub pool: Pool<DB>,
    pub url: String,
}

impl<DB: Kind> Fresh<DB> {
    pub async fn new() -> Self {
        let url = DB::url();
        let pool = DB::pool(&url, &[]).await;
        Self { pool, url }
    }

    pub fn lock(&self) -> Lock<DB> {
        Lock::new(self.pool.clone())
    }
}

/// A kind of database. A test that is generic over it sends statements and values as a test of one database does.
pub trait Kind: Database
where
    for<'c> Self:
        Implies<&'c mut <Self as sqlx::Database>::Connection, Is: Executor<'c, Database = Self>>,
    for<'v> Self: Implies<&'v str, Is: Decode<'v, Self> + for<'q> Encode<'q, Self>>,
    Self: Implies<<Self as sqlx::Database>::Connection, Is: AsConnection<Database = Self>>
        + Implies<<Self as sqlx::Database>::Arguments, Is: IntoArguments<Self>>
        + Implies<usize, Is: ColumnIndex<<Self as sqlx::Database>::Row>>
        + Implies<str, Is: Type<Self>>
        + Implies<String, Is: Value<Self>>
        + Implies<i32, Is: Value<Self>>
        + Implies<i64, Is: Value<Self>>,
{
    /// Creates an empty database and returns its URL.
    fn url() -> String;

    /// A pool of up to 60 connections to `url`. Each connection starts with these statements.
    fn pool(
        url: &str,
        statements: &'static [&'static str],
    ) -> impl Future<Output = Pool<Self>> + Send;
}

/// A value that a statement can bind and a row can hold.
pub trait Value<DB: sqlx::Database>:
    for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>
{
}

impl<DB, T> Value<DB> for T
where
    DB: sqlx::Database,
    T: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>,
{
}

/// How long a test waits for a connection or for the lock of a SQLite file.
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);

macro_rules! kind {
    ($database:ty, $url:expr, $options:expr) => {
        impl Kind for $database {
            fn url() -> String {
                $url
            }

            async fn pool(url: &str, statements: &'static [&'static str]) -> Pool<Self> {
                let pool = PoolOptions::<Self>::new()
                    .max_connections(60)
                    .acquire_timeout(WAIT_TIMEOUT)
                    .after_connect(move |connection, _| {
                        Box::pin(async move {
                            for statement in statements {
                                raw_sql(*statement).execute(&mut *connection).await?;
                            }
                            Ok(())
                        })
                    });
                pool.connect_with($options(url).unwrap()).await.unwrap()
            }
        }
    };
}

kind!(
    Postgres,
    PostgresServer::shared().unwrap().database().unwrap(),
    PgConnectOptions::from_str
);
kind!(
    MySql,
    MariaDbServer::shared().unwrap().database().unwrap(),
    MySqlConnectOptions::from_str
);
kind!(Sqlite, format!("sqlite:{}", file().display()), sqlite);

/// A commit does not wait for the disk, like on the test servers.
fn sqlite(url: &str) -> sqlx::Result<SqliteConnectOptions> {
    Ok(SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Off)
        .busy_timeout(WAIT_TIMEOUT))
}

/// A new path in a folder of this process.
pub fn file() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    static FILES: AtomicUsize = AtomicUsize::new(0);

    let folder = FOLDER.get_or_init(|| {
        let folders = env::temp_dir().join("idempotence-databases");
        remove_folders_of_earlier_runs(&folders);
        let folder = folders.join(format!("{:016x}", rand::random::<u64>()));
        fs::create_dir_all(&folder).unwrap();
        folder
    });
    folder.join(FILES.fetch_add(1, Ordering::SeqCst).to_string())
}

fn remove_folders_of_earlier_runs(folders: &Path) {
    let Ok(found) = fs::read_dir(folders) else {
        return;
    };
    for folder in found.flatten() {
        let made = folder.metadata().and_then(|metadata| metadata.modified());
        let age = made.ok().and_then(|made| made.elapsed().ok());
        if age > Some(Duration::from_hours(1)) {
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}
