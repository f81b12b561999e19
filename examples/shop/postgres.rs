//! The shop on PostgreSQL: the database of each run is a schema of its own.

use std::sync::Arc;

use idempotence::sql;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgPool};
use tokio::sync::OnceCell;

use crate::{Failure, PROCESS};

#[path = "shop.rs"]
pub(crate) mod shop;

pub(crate) const NAME: &str = "PostgreSQL";
pub(crate) type Db = sqlx::Postgres;
pub(crate) type Connection = sqlx::PgConnection;

const TABLES: &str = "
    CREATE TABLE orders (no TEXT PRIMARY KEY, status TEXT, cents BIGINT, receipt BIGINT);
    CREATE TABLE wallet (
        number BIGINT GENERATED ALWAYS AS IDENTITY, page TEXT NOT NULL, cents BIGINT NOT NULL
    );
";

/// A database with schemas.
pub(crate) struct Databases {
    options: PgConnectOptions,
}

/// The schema of one run.
pub(crate) struct Database {
    pub(crate) pool: PgPool,
    schema: String,
}

impl Databases {
    pub(crate) async fn new(url: &str) -> Result<Self, Failure> {
        let options: PgConnectOptions = url.parse()?;
        options.connect().await?.close().await?; // a wrong URL is an error now, and not at the first click
        Ok(Self { options })
    }

    /// Makes the database of a run. Its first connection makes the schema, so a run without SQL costs nothing.
    #[allow(clippy::unnecessary_wraps)] // `sqlite.rs` copies a file here
    pub(crate) fn open(&self, run: u64) -> std::io::Result<Database> {
        let schema = format!("{}_{run}", *PROCESS);
        let create = format!("CREATE SCHEMA {schema}; {} {TABLES}", sql::schema::<Db>());
        let first = Arc::new(OnceCell::new());
        let options = self.options.clone().options([("search_path", &schema)]);
        let pool = PgPoolOptions::new()
            .max_connections(3) // many runs are open at once
            .idle_timeout(None) // a pool without a connection has made no schema
            .max_lifetime(None)
            .after_connect(move |connection, _| {
                let (first, create) = (Arc::clone(&first), create.clone());
                Box::pin(async move {
                    let create = sqlx::raw_sql(AssertSqlSafe(create)).execute(connection);
                    first.get_or_try_init(|| create).await?;
                    Ok(())
                })
            })
            .connect_lazy_with(options);
        Ok(Database { pool, schema })
    }
}

impl Database {
    pub(crate) async fn remove(&self) {
        if self.pool.size() > 0 {
            let drop = AssertSqlSafe(format!("DROP SCHEMA {} CASCADE", self.schema));
            let _ = sqlx::query(drop).execute(&self.pool).await;
        }
        self.pool.close().await;
    }
}
