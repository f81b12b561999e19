//! The shop on SQLite: the database of each run is a copy of a file that has the tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use idempotence::sql;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

use crate::{Failure, PROCESS};

#[path = "shop.rs"]
pub(crate) mod shop;

pub(crate) const NAME: &str = "SQLite";
pub(crate) type Db = sqlx::Sqlite;
pub(crate) type Connection = sqlx::SqliteConnection;

const TABLES: &str = "
    CREATE TABLE orders (no TEXT PRIMARY KEY, status TEXT, cents BIGINT, receipt BIGINT);
    CREATE TABLE wallet (number INTEGER PRIMARY KEY, page TEXT NOT NULL, cents BIGINT NOT NULL);
";

/// A folder of databases. Dropping it removes the folder.
pub(crate) struct Databases {
    folder: PathBuf,
}

/// The database of one run.
pub(crate) struct Database {
    pub(crate) pool: SqlitePool,
    file: PathBuf,
}

impl Databases {
    pub(crate) async fn new() -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(&*PROCESS);
        std::fs::create_dir_all(&folder)?;
        let databases = Self { folder };
        let pool = open(&databases.template());
        sql::migrate(&pool).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        pool.close().await; // moves the write-ahead log into the file
        Ok(databases)
    }

    /// Makes the database of a run. No connection is made before the first statement.
    pub(crate) fn open(&self, run: u64) -> std::io::Result<Database> {
        let file = self.folder.join(format!("run-{run}.db"));
        std::fs::copy(self.template(), &file)?;
        let pool = open(&file);
        Ok(Database { pool, file })
    }

    fn template(&self) -> PathBuf {
        self.folder.join("template.db")
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Database {
    pub(crate) async fn remove(&self) {
        self.pool.close().await;
        for end in ["", "-wal", "-shm"] {
            let mut file = self.file.clone().into_os_string();
            file.push(end);
            let _ = tokio::fs::remove_file(file).await;
        }
    }
}

fn open(file: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    // A pool without a connection was never used.
    let pool = SqlitePoolOptions::new()
        .idle_timeout(None)
        .max_lifetime(None);
    pool.connect_lazy_with(options)
}
