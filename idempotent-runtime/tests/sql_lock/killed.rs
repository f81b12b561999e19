//! The process of a holder is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use idempotent_runtime::sql::{Lock, sqlx};
use tokio::time::{Instant, timeout};

use crate::databases::Subject;
use crate::fresh::Fresh;

const LEASE: Duration = Duration::from_secs(1);

crate::on_all_databases!(the_lock_of_a_killed_holder_is_taken_until_its_lease_expires);

async fn the_lock_of_a_killed_holder_is_taken_until_its_lease_expires<DB: Subject>(
    fresh: Fresh<DB>,
) {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::holds_until_it_is_killed", "--nocapture"])
        .env(URL, &fresh.url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let fence = lines
        .map(Result::unwrap)
        .find_map(|line| line.strip_prefix("fence: ").map(str::to_owned));
    holder.kill().unwrap();
    holder.wait().unwrap();

    let lock = fresh.lock();
    let taking = async {
        loop {
            if let Some(held) = lock.take("trade:42", LEASE).await.unwrap() {
                break held;
            }
        }
    };
    let held = timeout(Duration::from_mins(1), taking).await.unwrap();
    assert!(started.elapsed() >= LEASE);
    assert_eq!(fence.unwrap(), "1");
    assert_eq!(held.fence(), 2);
}

const URL: &str = "IDEMPOTENCE_TEST_LOCK";

/// The code of the process that is killed. Does nothing unless the test above has started the process.
#[tokio::test]
#[allow(clippy::print_stdout)]
async fn holds_until_it_is_killed() {
    async fn hold<DB: Subject>(url: &str) {
        let lock = Lock::new(DB::pool(url, &[]).await);
        let held = lock.take("trade:42", LEASE).await.unwrap().unwrap();
        println!("\nfence: {}", held.fence());
        std::future::pending::<()>().await;
    }
    let Ok(url) = std::env::var(URL) else { return };
    match url.split(':').next() {
        Some("postgres") => hold::<sqlx::Postgres>(&url).await,
        Some("mysql") => hold::<sqlx::MySql>(&url).await,
        _ => hold::<sqlx::Sqlite>(&url).await,
    }
}
