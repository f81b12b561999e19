//! One of two processes does the work of an order, and a third process finds it done.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use idempotence_test_servers::RedisServer;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

const BIN: &str = env!("CARGO_BIN_EXE_lock_check_update");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_one_does_the_work_and_a_third_finds_it_done() {
    let shop = Shop::new("processes").await;
    let redis = RedisServer::start().unwrap();
    let run = || {
        let process = Command::new(BIN)
            .arg(redis.url())
            .arg(&shop.file)
            .stdout(Stdio::piped())
            .spawn();
        process.unwrap()
    };
    let ended = |process: Child| printed(process.wait_with_output().unwrap());
    let mut both = [run(), run()].map(ended);
    // The store of a slow machine may not answer within a second. Then the calls are refused, and come again.
    for _ in 0..10 {
        if both.iter().all(|printed| printed.count("earned") == 0) {
            both = [run(), run()].map(ended);
        }
    }
    let [one, other] = both;
    assert_eq!(
        one.count("working:") + other.count("working:"),
        1,
        "{one:?} {other:?}"
    );
    assert_eq!(
        one.count("earned now") + other.count("earned now"),
        1,
        "{one:?} {other:?}"
    );

    let mut third = ended(run());
    for _ in 0..10 {
        if third.count("earned") == 0 {
            third = ended(run());
        }
    }
    assert_eq!(
        third.count("working:") + third.count("earned now"),
        0,
        "{third:?}"
    );
    assert!(third.count("earned before") > 0, "{third:?}");
    assert_eq!(shop.points().await, 100);
}

struct Shop {
    file: PathBuf,
}

impl Shop {
    /// Sets the journal mode first: SQLite refuses one of two processes that set it at the same time.
    async fn new(name: &str) -> Self {
        let name = format!("lock-check-update-{}-{name}.db", std::process::id());
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let pool = SqlitePool::connect_with(options).await.unwrap();
        pool.close().await;
        Self { file }
    }

    async fn points(&self) -> i64 {
        let points = sqlx::query_scalar("SELECT points FROM users WHERE id = 7");
        let url = format!("sqlite://{}", self.file.display());
        points
            .fetch_one(&SqlitePool::connect(&url).await.unwrap())
            .await
            .unwrap()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let mut file = self.file.clone().into_os_string();
            file.push(end);
            let _ = std::fs::remove_file(file);
        }
    }
}

#[derive(Debug)]
struct Printed(Vec<String>);

impl Printed {
    fn count(&self, words: &str) -> usize {
        self.0.iter().filter(|line| line.starts_with(words)).count()
    }
}

fn printed(output: Output) -> Printed {
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    Printed(lines.lines().map(str::to_owned).collect())
}
