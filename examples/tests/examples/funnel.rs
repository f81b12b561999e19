//! Redis loses its data while an order is placed: the order is placed once.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use idempotence_test_servers::RedisServer;
use redis::Client;
use sqlx::SqlitePool;

const BIN: &str = env!("CARGO_BIN_EXE_funnel");

/// The store of a slow machine may not answer within a second. Then all clicks of a process are refused, and come again.
const TRIES: usize = 10;

#[tokio::test]
async fn an_order_is_placed_once_when_redis_is_flushed_in_the_middle() {
    let shop = Shop::new("flushed");
    let first = shop.entering();
    shop.flush();
    // Only the dedup row refuses these calls. Its transaction is open.
    let second = shop.clicked();
    let first = first.until_the_end();

    assert_eq!(first.count("entering:"), 1, "{first:?}");
    assert_eq!(second.count("entering:"), 0, "{second:?}");
    for clicks in [first, second] {
        assert!(clicks.count("receipt: 1") > 0, "{clicks:?}");
        assert_eq!(
            clicks.count("receipt: 1") + clicks.count("refused:"),
            10,
            "{clicks:?}"
        );
    }
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn after_a_kill_in_the_transaction_the_next_process_places_the_order() {
    let shop = Shop::new("killed");
    let mut first = shop.entering();
    first.process.kill().unwrap();
    first.process.wait().unwrap();
    assert_eq!(shop.orders().await, 0);
    shop.flush();

    let second = shop.clicked();
    assert_eq!(second.count("entering:"), 1, "{second:?}");
    assert_eq!(second.count("receipt: 1"), 1, "{second:?}");
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn an_order_is_placed_once_without_redis_data_and_without_the_dedup_row() {
    let shop = Shop::new("forgotten");
    shop.clicked();
    shop.flush();
    let pool = shop.pool().await;
    sqlx::query("DELETE FROM idempotence")
        .execute(&pool)
        .await
        .unwrap();

    let second = shop.clicked();
    assert_eq!(second.count("entering:"), 1, "{second:?}");
    assert_eq!(second.count("receipt:"), 0, "{second:?}");
    assert_eq!(second.count("refused: the order was placed long ago"), 1);
    assert_eq!(shop.orders().await, 1);
}

struct Shop {
    redis: RedisServer,
    file: PathBuf,
}

impl Shop {
    fn new(name: &str) -> Self {
        let name = format!("funnel-{}-{name}.db", std::process::id());
        Self {
            redis: RedisServer::start().unwrap(),
            file: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name),
        }
    }

    /// Starts a process with ten clicks.
    fn clicks(&self) -> Clicks {
        let mut process = Command::new(BIN)
            .arg(self.redis.url())
            .arg(&self.file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        Clicks {
            process,
            lines: BufReader::new(stdout).lines(),
            printed: Printed(Vec::new()),
        }
    }

    /// Starts ten clicks, and returns when one of them is in its transaction.
    fn entering(&self) -> Clicks {
        for _ in 0..TRIES {
            let mut clicks = self.clicks();
            if clicks.reaches("entering:") {
                return clicks;
            }
        }
        panic!("no click of {TRIES} processes was served");
    }

    /// What ten clicks print to their end.
    fn clicked(&self) -> Printed {
        for _ in 0..TRIES {
            let printed = self.clicks().until_the_end();
            if printed.count("entering:") + printed.count("receipt:") > 0 {
                return printed;
            }
        }
        panic!("no click of {TRIES} processes was served");
    }

    fn flush(&self) {
        let mut redis = Client::open(self.redis.url())
            .unwrap()
            .get_connection()
            .unwrap();
        let () = redis::cmd("FLUSHALL").query(&mut redis).unwrap();
    }

    async fn pool(&self) -> SqlitePool {
        let url = format!("sqlite://{}", self.file.display());
        SqlitePool::connect(&url).await.unwrap()
    }

    async fn orders(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM orders");
        count.fetch_one(&self.pool().await).await.unwrap()
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

struct Clicks {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    printed: Printed,
}

#[derive(Debug)]
struct Printed(Vec<String>);

impl Clicks {
    /// Whether the process prints a line with these words before its end.
    fn reaches(&mut self, words: &str) -> bool {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            let found = line.contains(words);
            self.printed.0.push(line);
            if found {
                return true;
            }
        }
        false
    }

    fn until_the_end(mut self) -> Printed {
        self.printed.0.extend(self.lines.map(Result::unwrap));
        let ended = self.process.wait().unwrap();
        // Without an answer of the store there is no token, and so no click.
        let has_clicked = self.printed.0.len() > 1;
        assert!(ended.success() || !has_clicked, "{:?}", self.printed);
        self.printed
    }
}

impl Printed {
    fn count(&self, words: &str) -> usize {
        self.0.iter().filter(|line| line.starts_with(words)).count()
    }
}
