//! The process of a holder is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotent_sql::sql::{Lock, sqlx};

use crate::lock::databases::{Subject, fresh, taken};

const LONG: Duration = Duration::from_mins(10);

on_every_database! {
    the_lock_of_a_killed_holder_is_taken_until_its_lease_expires
}

async fn the_lock_of_a_killed_holder_is_taken_until_its_lease_expires<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    // On a slow machine a short lease expires before the holder is killed.
    for seconds in [1_u64, 2, 4, 8, 16, 32] {
        let (fence, expires) = killed_holder(&fresh.url, seconds);
        if let Some(early) = lock.take("trade:42", LONG).await.unwrap() {
            assert!(millis(SystemTime::now()) >= expires, "{expires}");
            early.release().await.unwrap();
            continue;
        }
        let held = taken(&lock, LONG).await;
        let now = millis(SystemTime::now());
        assert!(now >= expires, "{now} {expires}");
        assert_eq!(held.fence(), fence + 1);
        return;
    }
    panic!("each of 6 holders was killed after its lease");
}

/// Kills a process that holds the lock. Returns its fence, and when its lease expires.
fn killed_holder(url: &str, seconds: u64) -> (i64, u128) {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "lock::killed::holds_until_it_is_killed",
            "--nocapture",
        ])
        .env(URL, url)
        .env(SECONDS, seconds.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = lines
        .map(Result::unwrap)
        .find_map(|line| {
            let (fence, expires) = line.strip_prefix("held: ")?.split_once(' ')?;
            Some((fence.parse().unwrap(), expires.parse().unwrap()))
        })
        .unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    held
}

/// Milliseconds since the epoch.
fn millis(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap().as_millis()
}

const URL: &str = "IDEMPOTENCE_TEST_LOCK";
const SECONDS: &str = "IDEMPOTENCE_TEST_LEASE";

/// The code of the process that is killed. Does nothing unless the test above has started the process.
#[tokio::test]
#[allow(clippy::print_stdout)]
async fn holds_until_it_is_killed() {
    async fn hold<DB: Subject>(url: &str) {
        let lock = Lock::new(DB::pool(url, &[]).await);
        let seconds = std::env::var(SECONDS).unwrap().parse().unwrap();
        let held = taken(&lock, Duration::from_secs(seconds)).await;
        let expires = millis(SystemTime::now() + held.remaining());
        println!("\nheld: {} {expires}", held.fence());
        std::future::pending::<()>().await;
    }
    let Ok(url) = std::env::var(URL) else { return };
    match url.split(':').next() {
        Some("postgres") => hold::<sqlx::Postgres>(&url).await,
        Some("mysql") => hold::<sqlx::MySql>(&url).await,
        _ => hold::<sqlx::Sqlite>(&url).await,
    }
}
