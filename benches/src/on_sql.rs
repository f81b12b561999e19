//! Contenders in tables of private databases.

mod statements;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use idempotence::sql::sqlx::{MySql, Pool, Postgres, Sqlite};
use idempotence::sql::{self, Database};
use idempotence::{Idempotency, SqlStore};
use idempotence_test_servers::{MariaDbServer, PostgresServer};
use tokio::runtime::Runtime;

pub use self::statements::Statements;
use self::statements::{WEEK, number};
use crate::plans::{self, Plan};
use crate::upload::{self, Clock, Upload};
use crate::{ATTRIBUTE, BY_HAND, Lap, Run, key, owner};

/// The numbers of concurrent tasks.
pub const TASKS: [u32; 2] = [1, 32];

/// The numbers of other rows in the two tables.
pub const ROWS: [u32; 2] = [10_000, 2_000_000];

/// A database with few rows and one with many, both on one server.
pub struct OnSql<DB: Database> {
    runtime: Runtime,
    /// In the order of [`ROWS`].
    sides: [Side<DB>; 2],
    many_url: String,
    /// The name and the version of the database.
    pub version: String,
    _server: Server,
}

/// Contenders on one pool.
struct Side<DB: Database> {
    pool: Pool<DB>,
    attribute: Idempotency,
    by_hand: ByHand<DB>,
}

/// The server, or the folder of the files. Dropping it removes both.
enum Server {
    Postgres(PostgresServer),
    MariaDb(MariaDbServer),
    Sqlite(PathBuf),
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Self::Sqlite(folder) = self {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl OnSql<Postgres> {
    /// `PostgreSQL`, with memory for all rows.
    pub fn postgres() -> Self {
        let server =
            PostgresServer::start_with(["-c", "shared_buffers=2GB", "-c", "max_wal_size=4GB"]);
        Self::start(Server::Postgres(server.expect("postgres is installed")))
    }
}

impl OnSql<Postgres> {
    /// The plans of the statements in the table with many rows.
    pub fn plans(&self) -> Vec<Plan> {
        self.runtime.block_on(plans::on_postgres(&self.many_url))
    }
}

impl OnSql<MySql> {
    /// The plans of the statements in the table with many rows.
    pub fn plans(&self) -> Vec<Plan> {
        self.runtime.block_on(plans::on_mariadb(&self.many_url))
    }
}

impl OnSql<MySql> {
    /// `MariaDB`, with memory for all rows.
    pub fn mariadb() -> Self {
        let server = MariaDbServer::start_with([
            "--innodb-buffer-pool-size=2G",
            "--innodb-log-file-size=1G",
        ]);
        Self::start(Server::MariaDb(server.expect("mariadbd is installed")))
    }
}

impl OnSql<Sqlite> {
    /// Two files.
    pub fn sqlite() -> Self {
        let folder = format!("idempotence-bench-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir(&folder).expect("a new folder");
        Self::start(Server::Sqlite(folder))
    }
}

impl<DB: Statements> OnSql<DB> {
    fn start(server: Server) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let urls = ROWS.map(|rows| match &server {
            Server::Postgres(server) => server.database().expect("a database"),
            Server::MariaDb(server) => server.database().expect("a database"),
            Server::Sqlite(folder) => format!("sqlite:{}", folder.join(rows.to_string()).display()),
        });
        let [few, many] = ROWS;
        let [few_url, many_url] = urls;
        let (sides, version) = runtime.block_on(async {
            let sides = [
                Side::new(&few_url, few).await,
                Side::new(&many_url, many).await,
            ];
            let version = DB::text(&sides[0].pool, DB::VERSION).await;
            (sides, version)
        });
        Self {
            runtime,
            sides,
            many_url,
            version: format!("{} {version}", DB::NAME),
            _server: server,
        }
    }

    /// First calls that release their key, from `tasks` tasks: with few rows, then with many.
    pub fn claims(&self, tasks: u32) -> Vec<Lap<'_>> {
        self.laps(|side| {
            [
                upload::lap(&self.runtime, tasks, Clock::Calls, side.attribute.clone()),
                upload::lap(&self.runtime, tasks, Clock::Calls, side.by_hand.clone()),
            ]
        })
    }

    /// First calls in transactions that insert an order, from `tasks` tasks: with few rows, then with many.
    pub fn transactions(&self, tasks: u32) -> Vec<Lap<'_>> {
        self.laps(|side| {
            let attribute = Guarded(side.pool.clone(), side.attribute.clone());
            let by_hand = InHand(side.by_hand.clone());
            [
                upload::lap(&self.runtime, tasks, Clock::Calls, attribute),
                upload::lap(&self.runtime, tasks, Clock::Calls, by_hand),
            ]
        })
    }

    fn laps<'a>(&'a self, of: impl Fn(&'a Side<DB>) -> [Run<'a>; 2]) -> Vec<Lap<'a>> {
        let pairs = self.sides.iter().map(of);
        pairs
            .flat_map(|[attribute, by_hand]| [(ATTRIBUTE, attribute), (BY_HAND, by_hand)])
            .collect()
    }
}

impl<DB: Statements> Side<DB> {
    async fn new(url: &str, rows: u32) -> Self {
        let store = SqlStore::<DB>::connect(url).await.expect("a store");
        let pool = store.pool().clone();
        let attribute = Idempotency::new(store);
        let by_hand = ByHand {
            pool: pool.clone(),
            rest: "-".repeat(RECORD_LEN - 32),
        };
        // The same table under another name, and the business.
        let tables = sql::schema::<DB>().replace("idempotence", "by_hand");
        let orders = "CREATE TABLE orders (number VARCHAR(40) PRIMARY KEY, amount BIGINT NOT NULL)";
        for statement in tables.split(';').chain([orders]) {
            if !statement.trim().is_empty() {
                DB::apply(&pool, statement).await;
            }
        }
        for table in ["idempotence", "by_hand"] {
            let fill = DB::FILL.replace("{table}", table);
            let fill = fill.replace("{rows}", &rows.to_string());
            DB::apply(&pool, &fill.replace("{size}", &RECORD_LEN.to_string())).await;
        }
        for statement in DB::SETTLE {
            DB::apply(&pool, statement).await;
        }
        Self {
            pool,
            attribute,
            by_hand,
        }
    }
}

/// The length of a record of the crate.
const RECORD_LEN: usize = 110;

/// How long a key is taken, in microseconds: the lease of the attribute and its grace.
const EXPIRY: i64 = 33_000_000;

/// Inserts a row unless a live row exists, and removes it by its owner. The sessions of the pool set the timeouts of locks.
struct ByHand<DB: Database> {
    pool: Pool<DB>,
    /// Fills the value up to the length of a record of the crate.
    rest: String,
}

impl<DB: Database> Clone for ByHand<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            rest: self.rest.clone(),
        }
    }
}

impl<DB: Statements> Upload for ByHand<DB> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = key(":", user_id, &file_md5);
        let value = owner() + &self.rest;
        let mut connection = self.pool.acquire().await.expect("a connection");
        let put = DB::put_row(&mut connection, &key, value.as_bytes(), EXPIRY).await;
        assert_eq!(put, 1, "the key is taken");
        drop(connection);
        let outcome = file_md5.len();
        let mut connection = self.pool.acquire().await.expect("a connection");
        let removed = DB::delete_row(&mut connection, &key, value.as_bytes()).await;
        assert_eq!(removed, 1, "the caller owns the key");
        outcome
    }
}

/// The deduplication row in a transaction, by hand.
struct InHand<DB: Database>(ByHand<DB>);

impl<DB: Database> Clone for InHand<DB> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<DB: Statements> Upload for InHand<DB> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let mut tx = self.0.pool.begin().await.expect("a transaction");
        let key = key(":", user_id, &file_md5);
        let value = owner() + &self.0.rest;
        let micros = i64::try_from(WEEK.as_micros()).expect("a few digits");
        let put = DB::put_row(&mut tx, &key, value.as_bytes(), micros).await;
        assert_eq!(put, 1, "the order is made");
        DB::order(&mut tx, &number(user_id)).await;
        tx.commit().await.expect("a commit");
        file_md5.len()
    }
}

/// The deduplication row in a transaction, by a guarded call.
struct Guarded<DB: Database>(Pool<DB>, Idempotency);

impl<DB: Database> Clone for Guarded<DB> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), self.1.clone())
    }
}

impl<DB: Statements> Upload for Guarded<DB> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let mut tx = self.0.begin().await.expect("a transaction");
        DB::guarded(&self.1, &mut tx, user_id, &file_md5).await;
        tx.commit().await.expect("a commit");
        file_md5.len()
    }
}
