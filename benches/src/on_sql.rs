//! Contenders in tables of private databases.

mod contenders;
mod libraries;
mod statements;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use idempotence::sql::sqlx::{MySql, Pool, Postgres, Sqlite};
use idempotence::sql::{self, Database};
use idempotence::{Idempotency, SqlStore};
use idempotence_test_servers::{MariaDbServer, PostgresServer};
use tokio::runtime::Runtime;

use self::contenders::{ByHand, Guarded, InHand, RECORD_LEN};
pub use self::statements::Statements;
use crate::cpu::{Cpu, TICK};
use crate::limit;
use crate::plans::{self, Plan};
use crate::relay;
use crate::upload::{self, Clock, InBackground};
use crate::{ATTRIBUTE, BY_HAND, IN_BACKGROUND, Lap};

/// The numbers of concurrent tasks.
pub const TASKS: [u32; 4] = [1, 8, 32, 256];

/// The numbers of concurrent tasks with transactions.
pub const TRANSACTIONS: [u32; 2] = [1, 32];

/// The numbers of other rows in the two tables.
pub const ROWS: [u32; 2] = [10_000, 2_000_000];

/// A database with few rows and one with many, both on one server.
pub struct OnSql<DB: Database> {
    runtime: Runtime,
    few: Side<DB>,
    /// `None` in a short run.
    many: Option<Side<DB>>,
    /// The name and the version of the database.
    pub version: String,
    _server: Server,
}

/// Contenders on one pool.
struct Side<DB: Database> {
    url: String,
    pool: Pool<DB>,
    attribute: Idempotency,
    /// `batch = false`.
    unbatched: Idempotency,
    by_hand: ByHand<DB>,
}

/// Contenders that take turns.
pub struct Contest<'a> {
    /// The attribute, by hand, and perhaps the attribute without batches, and with ends in the background.
    pub few: Vec<Lap<'a>>,
    /// The attribute and by hand. Empty in a short run.
    pub many: Vec<Lap<'a>>,
}

/// What a contender needs.
pub struct Usage {
    /// The transactions that wrote something, as the server counts them: per second and per call.
    pub writes: Option<[f64; 2]>,
    /// The connections in use, on average.
    pub connections: f64,
}

/// The server, or the folder of the files. Dropping it removes both.
enum Server {
    Postgres(PostgresServer),
    /// With the URL of a database behind a relay.
    Far {
        _server: PostgresServer,
        url: String,
    },
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
    /// `PostgreSQL`, with memory for all rows. A commit waits for the disk, unlike in tests.
    pub fn postgres() -> Self {
        let settings = [
            "-c",
            "fsync=on",
            "-c",
            "shared_buffers=2GB",
            "-c",
            "max_wal_size=4GB",
        ];
        let server = PostgresServer::start_with(settings);
        let server = server.expect("postgres is installed");
        Self::start(Server::Postgres(server), !is_short())
    }

    /// A `PostgreSQL` without the table of many rows.
    pub fn postgres_with_few_rows() -> Self {
        let server = PostgresServer::start_with(["-c", "fsync=on"]);
        let server = server.expect("postgres is installed");
        Self::start(Server::Postgres(server), false)
    }

    /// The same, over a network with a round trip of a millisecond.
    pub fn postgres_far_away() -> Self {
        let server = PostgresServer::start_with(["-c", "fsync=on"]);
        let server = server.expect("postgres is installed");
        let url = server.database().expect("a database");
        let (near, far) = (server.port(), relay::start(server.port()));
        let url = url.replace(&format!(":{near}/"), &format!(":{far}/"));
        let server = Server::Far {
            url,
            _server: server,
        };
        Self::start(server, false)
    }

    /// First calls from `tasks` tasks: the attribute, and the limit.
    pub fn limit(&self, tasks: u32) -> Vec<Lap<'_>> {
        let side = &self.few;
        let attribute = side.attribute.clone();
        vec![
            (
                ATTRIBUTE,
                upload::lap(&self.runtime, tasks, Clock::Calls, attribute),
            ),
            limit::on_postgres(&self.runtime, &side.pool, tasks, &side.by_hand.rest),
        ]
    }

    /// The plans of the statements in the table with many rows.
    pub fn plans(&self) -> Vec<Plan> {
        let plans = |side: &Side<_>| self.runtime.block_on(plans::on_postgres(&side.url));
        self.many.as_ref().map(plans).unwrap_or_default()
    }
}

impl OnSql<MySql> {
    /// The plans of the statements in the table with many rows.
    pub fn plans(&self) -> Vec<Plan> {
        let plans = |side: &Side<_>| self.runtime.block_on(plans::on_mariadb(&side.url));
        self.many.as_ref().map(plans).unwrap_or_default()
    }

    /// `MariaDB`, with memory for all rows. A commit waits for the disk, unlike in tests.
    pub fn mariadb() -> Self {
        let server = MariaDbServer::start_with([
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-buffer-pool-size=2G",
            "--innodb-log-file-size=1G",
            "--innodb-monitor-enable=trx_rw_commits",
        ]);
        let server = server.expect("mariadbd is installed");
        Self::start(Server::MariaDb(server), !is_short())
    }
}

impl OnSql<Sqlite> {
    /// Two files.
    pub fn sqlite() -> Self {
        let folder = format!("idempotence-bench-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir(&folder).expect("a new folder");
        Self::start(Server::Sqlite(folder), !is_short())
    }
}

impl<DB: Statements> OnSql<DB> {
    fn start(server: Server, has_many: bool) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let side = |rows: u32| {
            let url = match &server {
                Server::Postgres(server) => server.database().expect("a database"),
                Server::Far { url, .. } => url.clone(),
                Server::MariaDb(server) => server.database().expect("a database"),
                Server::Sqlite(folder) => {
                    format!("sqlite:{}", folder.join(rows.to_string()).display())
                }
            };
            runtime.block_on(Side::<DB>::new(url, rows))
        };
        let [few, many] = ROWS;
        let (few, many) = (side(few), has_many.then(|| side(many)));
        let version = runtime.block_on(DB::text(&few.pool, DB::VERSION));
        Self {
            runtime,
            few,
            many,
            version: format!("{} {version}", DB::NAME),
            _server: server,
        }
    }

    /// First calls that release their key, from `tasks` tasks.
    pub fn claims(&self, tasks: u32) -> Contest<'_> {
        self.contest(|side| {
            let lap = |handle| upload::lap(&self.runtime, tasks, Clock::Calls, handle);
            let by_hand = upload::lap(&self.runtime, tasks, Clock::Calls, side.by_hand.clone());
            let in_background = InBackground(side.attribute.clone());
            let in_background = upload::lap(&self.runtime, tasks, Clock::Calls, in_background);
            vec![
                (ATTRIBUTE, lap(side.attribute.clone())),
                (BY_HAND, by_hand),
                ("batch = false", lap(side.unbatched.clone())),
                (IN_BACKGROUND, in_background),
            ]
        })
    }

    /// First calls in transactions that insert an order, from `tasks` tasks.
    pub fn transactions(&self, tasks: u32) -> Contest<'_> {
        self.contest(|side| {
            let attribute = Guarded(side.pool.clone(), side.attribute.clone());
            let by_hand = InHand(side.by_hand.clone());
            vec![
                (
                    ATTRIBUTE,
                    upload::lap(&self.runtime, tasks, Clock::Calls, attribute),
                ),
                (
                    BY_HAND,
                    upload::lap(&self.runtime, tasks, Clock::Calls, by_hand),
                ),
            ]
        })
    }

    fn contest<'a>(&'a self, laps: impl Fn(&'a Side<DB>) -> Vec<Lap<'a>>) -> Contest<'a> {
        let mut many = self.many.as_ref().map(&laps).unwrap_or_default();
        many.truncate(2);
        Contest {
            few: laps(&self.few),
            many,
        }
    }

    /// Runs the calls of a contender on the table with few rows for a while. `tasks`: from how many tasks.
    pub fn usage(&self, tasks: u32, (_, lap): &Lap) -> Usage {
        let mut calls = 1;
        loop {
            let before = self.writes();
            let (took, connections) = self.watched(|| lap(calls).total.as_secs_f64());
            if took >= 0.3 {
                let writes = before.zip(self.writes());
                #[expect(clippy::cast_precision_loss, reason = "a few digits are enough")]
                let writes = writes.map(|(before, after)| {
                    let writes = (after - before) as f64;
                    [writes / took, writes / (calls * u64::from(tasks)) as f64]
                });
                return Usage {
                    writes,
                    connections,
                };
            }
            calls *= 2;
        }
    }

    /// The processor time of a call, in microseconds: of the client and of the server. `tasks`: from how many tasks.
    #[expect(clippy::cast_precision_loss, reason = "a few digits are enough")]
    pub fn processor_time(tasks: u32, (_, lap): &Lap) -> [f64; 2] {
        let mut calls = 100;
        loop {
            let before = Cpu::now();
            let took = lap(calls).total;
            let used = Cpu::now() - before;
            if took >= Duration::from_millis(1500) {
                let per_call = TICK / (calls * u64::from(tasks)) as f64;
                return [used.client * per_call, used.servers * per_call];
            }
            calls *= 2;
        }
    }

    fn writes(&self) -> Option<u64> {
        let number = self.runtime.block_on(DB::text(&self.few.pool, DB::WRITES?));
        Some(number.parse().expect("a number"))
    }

    /// Runs something, and returns how many connections of the pool were in use meanwhile, on average.
    fn watched<T>(&self, run: impl FnOnce() -> T) -> (T, f64) {
        let has_ended = AtomicBool::new(false);
        let watch = || {
            let (mut looks, mut in_use) = (0_u32, 0.0);
            while !has_ended.load(Ordering::Relaxed) {
                let Self { few, .. } = self;
                let idle = u32::try_from(few.pool.num_idle()).unwrap_or(u32::MAX);
                in_use += f64::from(few.pool.size().saturating_sub(idle));
                looks += 1;
                thread::sleep(Duration::from_micros(500));
            }
            in_use / f64::from(looks.max(1))
        };
        thread::scope(|scope| {
            let watching = scope.spawn(watch);
            let ran = run();
            has_ended.store(true, Ordering::Relaxed);
            (ran, watching.join().expect("a number"))
        })
    }
}

/// Whether the variable `IDEMPOTENCE_SHORT` asks for a run of one or two minutes, without the large tables and the plans.
pub fn is_short() -> bool {
    std::env::var_os("IDEMPOTENCE_SHORT").is_some()
}

impl<DB: Statements> Side<DB> {
    async fn new(url: String, rows: u32) -> Self {
        let store = SqlStore::<DB>::connect(&url).await.expect("a store");
        let pool = store.pool().clone();
        // On a slow disk, 256 calls one by one take longer than the usual deadline.
        let unbatched = Idempotency::builder(store.clone().batch(false));
        let unbatched = unbatched
            .deadline(Duration::from_secs(30))
            .build()
            .expect("a handle");
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
            url,
            pool,
            attribute,
            unbatched,
            by_hand,
        }
    }
}
