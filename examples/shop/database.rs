//! A database for each run: a copy of a file that has the tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use idempotence::sql;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

use crate::run::Failure;

pub(crate) const NAME: &str = "SQLite";

const TABLES: &str = "
    CREATE TABLE orders (no TEXT PRIMARY KEY, status TEXT, cents INTEGER, receipt INTEGER);
    CREATE TABLE wallet (number INTEGER PRIMARY KEY, page TEXT NOT NULL, cents INTEGER NOT NULL);
";

/// A folder of databases. Dropping it removes the folder.
pub(crate) struct Template {
    folder: PathBuf,
}

impl Template {
    pub(crate) async fn new() -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("shop-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let template = Self { folder };
        let pool = open(&template.file());
        sql::migrate(&pool).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        pool.close().await; // moves the write-ahead log into the file
        Ok(template)
    }

    /// A new database, and its file. No connection is made before the first statement.
    pub(crate) fn copy(&self, run: u64) -> std::io::Result<(PathBuf, SqlitePool)> {
        let file = self.folder.join(format!("run-{run}.db"));
        std::fs::copy(self.file(), &file)?;
        let pool = open(&file);
        Ok((file, pool))
    }

    fn file(&self) -> PathBuf {
        self.folder.join("template.db")
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn open(file: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    SqlitePoolOptions::new().connect_lazy_with(options)
}
