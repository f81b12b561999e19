#![cfg(unix)]
#![allow(clippy::unwrap_used)]
// The same tests run on every database. The parent module describes the database.
#![allow(clippy::duplicate_mod)]

//! Transitions, versions and unique indexes, on real databases.

#[path = "../fresh/mod.rs"]
mod fresh;
mod mariadb;
mod postgres;
mod sqlite;
mod status;

use std::time::{Duration, Instant};

/// How long a test waits for another task.
const MAX_WAIT: Duration = Duration::from_mins(2);

/// Polls until the condition holds.
async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + MAX_WAIT;
    while !so().await {
        assert!(Instant::now() < deadline, "{what}: never");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
