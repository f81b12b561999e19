//! The shop is killed at any point: each order is shipped once.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use sqlx::SqlitePool;

const BIN: &str = env!("CARGO_BIN_EXE_outbox");

#[tokio::test]
async fn a_shop_that_is_killed_between_commit_and_shipment_ships_once() {
    // A kill may come too late, after all shipments.
    for _ in 0..20 {
        let shop = Killed::on("paid:").await;
        if shop.unshipped > 0 {
            return;
        }
    }
    panic!("expected a kill between a payment and its shipment");
}

#[tokio::test]
async fn a_shop_that_is_killed_before_the_carrier_has_answered_ships_once() {
    // A kill may come too late, after the shop stored the answer.
    for _ in 0..20 {
        let shop = Killed::on("carrier: took").await;
        if shop.requests.iter().any(|requests| *requests > 1) {
            return;
        }
    }
    panic!("expected a kill between the answer of the carrier and its storage");
}

#[tokio::test]
async fn a_shop_that_is_killed_before_or_after_a_shipment_ships_once() {
    Killed::on("shipping:").await;
    Killed::on(": shipped").await;
}

#[tokio::test]
async fn a_shop_that_is_not_killed_asks_the_carrier_once_for_each_order() {
    // If the shop stands still for longer than a lease, another shipper takes the order over.
    let mut requests = Vec::new();
    for _ in 0..5 {
        requests = Killed::on("a text that it never prints").await.requests;
        if requests == [1; 10] {
            return;
        }
    }
    panic!("the carrier was asked so often for each order: {requests:?}");
}

/// The recipe shows code of the example, so that it compiles and runs.
#[test]
fn the_recipe_shows_code_of_this_example() {
    let example = include_str!("../../outbox.rs");
    let lines: Vec<_> = example.lines().map(str::trim).collect();
    let page = include_str!("../../../docs/guide/recipes.md");
    let blocks: Vec<_> = page.split("```rust,ignore\n").skip(1).collect();
    assert_eq!(blocks.len(), 1);
    for line in blocks[0].split("```").next().unwrap().lines() {
        assert!(lines.contains(&line.trim()), "{line}");
    }
}

/// The tables after a shop was killed, started again, and finished.
struct Killed {
    /// The number of orders that were paid and not shipped at the kill.
    unshipped: i64,
    /// The number of requests to the carrier for each order.
    requests: Vec<i64>,
}

impl Killed {
    /// Runs the shop, and kills it when it first prints these words.
    async fn on(words: &str) -> Self {
        let folder = Folder::new();
        run(&folder.0, Some(words));
        let shop = open(&folder.0, "shop.db").await;
        let unshipped = scalar(&shop, "SELECT count(*) FROM outbox WHERE parcel IS NULL").await;
        run(&folder.0, None);

        let paid = "SELECT count(*) FROM orders WHERE status = 'PAID'";
        let shipped = "SELECT count(DISTINCT parcel) FROM outbox";
        assert_eq!(scalar(&shop, paid).await, 10);
        assert_eq!(scalar(&shop, shipped).await, 10);

        let carrier = open(&folder.0, "carrier.db").await;
        let parcels = "SELECT order_id, requests FROM parcels ORDER BY order_id";
        let parcels: Vec<(i64, i64)> = sqlx::query_as(parcels).fetch_all(&carrier).await.unwrap();
        let (orders, requests): (Vec<_>, _) = parcels.into_iter().unzip();
        assert!(orders.into_iter().eq(1..=10));
        Self {
            unshipped,
            requests,
        }
    }
}

/// Runs the shop to its end, or kills it when it prints the words.
fn run(folder: &Path, killed_on: Option<&str>) {
    let mut shop = Command::new(BIN)
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = channel();
    let stdout = BufReader::new(shop.stdout.take().unwrap());
    thread::spawn(move || {
        stdout
            .lines()
            .try_for_each(|line| sender.send(line.unwrap()))
    });
    loop {
        match lines.recv_timeout(Duration::from_mins(1)) {
            Ok(line) if killed_on.is_some_and(|words| line.contains(words)) => {
                shop.kill().unwrap();
                shop.wait().unwrap();
                return;
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                shop.kill().unwrap();
                panic!("the shop printed nothing for a minute");
            }
        }
    }
    assert!(shop.wait().unwrap().success());
}

async fn open(folder: &Path, file: &str) -> SqlitePool {
    let url = format!("sqlite://{}", folder.join(file).display());
    SqlitePool::connect(&url).await.unwrap()
}

async fn scalar(pool: &SqlitePool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("outbox-{}-{number}", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
