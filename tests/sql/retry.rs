//! Transactions that are retried, on every database.

mod begun;
mod databases;
mod every;
mod mariadb;
mod scripted;
mod servers;
mod silent;
mod sqlite;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotent_runtime::{Error, GuardedCall, Idempotency, MemoryStore};

const HOUR: Duration = Duration::from_hours(1);
/// How long a test waits for an event that must happen, also on a slow machine.
const MAX_WAIT: Duration = Duration::from_mins(2);

/// The errors of a transaction. Errors of sqlx are transparent, as in many programs.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Guard(#[from] Error),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error("declined")]
    Declined,
}

/// A call that pays an order.
fn paying(order: u32) -> GuardedCall {
    handle().call("orders.pay").key(&order).ttl(HOUR)
}

/// A busy machine may take longer than the usual deadline.
fn handle() -> Idempotency {
    let handle = Idempotency::builder(MemoryStore::new()).deadline(MAX_WAIT);
    handle.build().unwrap()
}

/// How often a body has run.
#[derive(Default)]
struct Runs(AtomicU32);

impl Runs {
    /// Counts a run. Returns its number.
    fn one(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}
