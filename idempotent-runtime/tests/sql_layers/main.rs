#![cfg(unix)]
#![allow(clippy::unwrap_used)]
// The same tests on every database, with what `super` says of it.
#![allow(clippy::duplicate_mod)]

//! Transitions, versions and unique indexes, on real databases.

#[path = "../fresh/mod.rs"]
mod fresh;
mod mariadb;
mod postgres;
mod sqlite;
mod status;

use std::time::{Duration, Instant};

/// What others need until they are where the test wants them.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until it is so.
async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so().await {
        assert!(Instant::now() < deadline, "{what}: never");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
