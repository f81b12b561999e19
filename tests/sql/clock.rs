//! Clients whose clocks are an hour behind or ahead agree on what has expired, because the database's clock decides.
//!
//! The clients are processes: this test program starts itself again with a preloaded library that shifts the clock. The test
//! runs only on Linux. That is enough, because no statement contains the clock of a client.

use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

use bytes::Bytes;
use idempotence_test_servers::{MariaDbServer, PostgresServer};
use idempotent_runtime::store::{Claim, Store};
use idempotent_runtime::{Error, Idempotency, MemoryStore};
use idempotent_sql::sql::Lock;
use idempotent_sql::{MySqlStore, PostgresStore};
use sqlx::{AssertSqlSafe, Executor, MySqlPool, PgPool};
use tokio::runtime::Runtime;

const HOUR: i64 = 60 * 60;
const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_secs(1);
const WHAT: [&str; 3] = ["a record", "a row", "a lock"];

#[test]
fn skewed_clients_agree_on_postgres() {
    // The time zone of the server does not matter either.
    let server = PostgresServer::start_with(["-c", "timezone=Asia/Tokyo"]).unwrap();
    clients_agree(&server.database().unwrap());
}

#[test]
fn skewed_clients_agree_on_mariadb() {
    let server = MariaDbServer::start_with(["--default-time-zone=+09:00"]).unwrap();
    clients_agree(&server.database().unwrap());
}

#[test]
fn clients_that_use_their_own_clocks_disagree() {
    let url = PostgresServer::shared().unwrap().database().unwrap();
    let [mut slow, mut fast] = [-HOUR, HOUR].map(|skew| Client::start(&url, skew));
    assert!(slow.takes("an own row", "a key", LONG));
    assert!(
        fast.takes("an own row", "a key", LONG),
        "the clients of the negative control must disagree"
    );
}

fn clients_agree(url: &str) {
    for skew in [HOUR, -HOUR] {
        let [mut one, mut other] = [skew, -skew].map(|skew| Client::start(url, skew));
        let key = |length: &str| format!("{length}, {skew}");
        let taken = WHAT.map(|what| {
            assert!(one.takes(what, &key("long"), LONG));
            assert!(
                !other.takes(what, &key("long"), LONG),
                "{what} must not expire early"
            );
            let taken = Instant::now();
            assert!(one.takes(what, &key("short"), SHORT));
            (what, taken)
        });
        for (what, taken) in taken {
            while !other.takes(what, &key("short"), SHORT) {
                assert!(
                    taken.elapsed() < Duration::from_mins(1),
                    "{what} must expire"
                );
                sleep(Duration::from_millis(20));
            }
            assert!(taken.elapsed() >= SHORT, "{what} must not expire early");
        }
    }
}

/// A process whose clock is wrong.
struct Client {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

const URL: &str = "IDEMPOTENCE_TEST_URL";
const SKEW: &str = "IDEMPOTENCE_TEST_SKEW";
const MARK: &str = "answer: ";

impl Client {
    fn start(url: &str, skew: i64) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "clock::another_process", "--nocapture"])
            .env("LD_PRELOAD", library())
            .env(URL, url)
            .env(SKEW, skew.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut client = Self {
            orders: child.stdin.take().unwrap(),
            answers: BufReader::new(stdout).lines(),
            child,
        };
        let clock: i64 = client.answer().parse().unwrap();
        let shifted = clock - now();
        assert!(
            (shifted - skew).abs() < HOUR / 2,
            "the clock must differ by {skew} s, and differs by {shifted} s"
        );
        client
    }

    /// Whether the client takes a free key for this time.
    fn takes(&mut self, what: &str, key: &str, ttl: Duration) -> bool {
        let millis = ttl.as_millis();
        writeln!(self.orders, "{what};{key};{millis}").unwrap();
        match &*self.answer() {
            "true" => true,
            "false" => false,
            other => panic!("{other}"),
        }
    }

    fn answer(&mut self) -> String {
        loop {
            let line = self
                .answers
                .next()
                .expect("the process must answer")
                .unwrap();
            if let Some(answer) = line.strip_prefix(MARK) {
                return answer.to_owned();
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs().try_into().unwrap()
}

/// Builds the library that shifts the clock. The C compiler is the linker of rustc, so it is installed.
fn library() -> &'static Path {
    const SOURCE: &str = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdlib.h>
        #include <time.h>

        int clock_gettime(clockid_t clock, struct timespec *now) {
            int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
            int failed = real(clock, now);
            const char *skew = getenv("IDEMPOTENCE_TEST_SKEW");
            if (!failed && clock == CLOCK_REALTIME && skew) now->tv_sec += atol(skew);
            return failed;
        }
    "#;
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();

    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let ours = folder.join(format!("skew-{}.so", process::id()));
        let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-shared", "-fPIC", "-x", "c", "-", "-ldl", "-o"])
            .arg(&ours)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = compiler.stdin.take().unwrap();
        stdin.write_all(SOURCE.as_bytes()).unwrap();
        drop(stdin);
        assert!(compiler.wait().unwrap().success());
        let library = folder.join("skew.so");
        fs::rename(ours, &library).unwrap();
        library
    })
}

/// The code of the processes. Does nothing without the environment that [`Client::start`] sets.
#[test]
fn another_process() {
    let Ok(url) = env::var(URL) else {
        return;
    };
    answer_with(now());
    Runtime::new().unwrap().block_on(async {
        if url.starts_with("postgres") {
            postgres(&url).await;
        } else {
            mysql(&url).await;
        }
    });
}

fn answer_with(what: impl std::fmt::Display) {
    println!("\n{MARK}{what}");
}

macro_rules! client {
    ($database:ident, $Store:ty, $Pool:ty) => {
        async fn $database(url: &str) {
            let pool = <$Pool>::connect(url).await.unwrap();
            let store = <$Store>::new(pool.clone());
            store.migrate().await.unwrap();
            let lock = Lock::new(pool.clone());
            let idempotency = Idempotency::new(MemoryStore::new());

            let record = async |key: &str, ttl| {
                // Each process writes its own value.
                let value = Bytes::from(process::id().to_string());
                store.claim(key, &value, ttl).await.unwrap() == Claim::Claimed
            };
            let row = async |key: &str, ttl| {
                let mut tx = pool.begin().await.unwrap();
                let call = idempotency.call("clock").key(key).ttl(ttl);
                let call = call.run_in(&mut tx, async |_| Ok::<_, Error>(())).await;
                tx.commit().await.unwrap();
                let Err(error) = call else {
                    return true;
                };
                assert!(error.is_duplicate(), "{error}");
                false
            };
            // The negative control uses the clock of the client.
            let own_row = async |key: &str, ttl: Duration| {
                let table = "CREATE TABLE IF NOT EXISTS own (name VARCHAR(99), ends BIGINT)";
                pool.execute(table).await.unwrap();
                let ends = format!("SELECT max(ends) FROM own WHERE name = '{key}'");
                let ends = sqlx::query_scalar(AssertSqlSafe(ends));
                let ends: Option<i64> = ends.fetch_one(&pool).await.unwrap();
                if ends > Some(now()) {
                    return false;
                }
                let ends = now() + i64::try_from(ttl.as_secs()).unwrap();
                let put = format!("INSERT INTO own VALUES ('{key}', {ends})");
                pool.execute(AssertSqlSafe(put)).await.unwrap();
                true
            };

            for order in stdin().lines() {
                let order = order.unwrap();
                let [what, key, millis] = order.split(';').collect::<Vec<_>>()[..] else {
                    panic!("{order}");
                };
                let ttl = Duration::from_millis(millis.parse().unwrap());
                answer_with(match what {
                    "a record" => record(key, ttl).await,
                    "a row" => row(key, ttl).await,
                    "a lock" => lock.take(key, ttl).await.unwrap().is_some(),
                    _ => own_row(key, ttl).await,
                });
            }
        }
    };
}

client!(postgres, PostgresStore, PgPool);
client!(mysql, MySqlStore, MySqlPool);
