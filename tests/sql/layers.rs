//! Transitions, versions and unique indexes, on real databases.

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
