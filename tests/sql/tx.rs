//! Calls in the caller's transaction, on every database.

mod answers;
mod databases;
mod mariadb;
mod postgres;
mod races;
mod refusals;
mod servers;
mod sqlite;
mod waits;

use std::error::Error as StdError;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotence::testkit::{Fault, FaultyStore};
use idempotent_runtime::{Error, Event, GuardedCall, Idempotency, MemoryStore};
use idempotent_sql::sql;

const HOUR: Duration = Duration::from_hours(1);
/// How long a test waits for an event that must happen, also on a slow machine.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// The errors of a body.
#[derive(Debug)]
enum Trouble {
    Guard(Error),
    #[expect(dead_code, reason = "it is printed")]
    Sql(sqlx::Error),
    Declined,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Guard(error)
    }
}

impl From<sqlx::Error> for Trouble {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl Trouble {
    /// The error of the guarded call. Panics on any other error.
    fn refusal(self) -> Error {
        match self {
            Self::Guard(error) => error,
            other => panic!("expected an error of the guarded call, got {other:?}"),
        }
    }
}

/// A handle whose store must not be used, and the outcomes that its observer gets.
fn handle() -> (Idempotency, Arc<Mutex<Vec<String>>>) {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Hang);
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&outcomes);
    let handle = Idempotency::builder(store)
        .largest_result(1000)
        .observer(move |event: &Event<'_>| noted.lock().unwrap().push(event.kind().to_string()))
        .build()
        .unwrap();
    (handle, outcomes)
}

fn take_outcomes(outcomes: &Mutex<Vec<String>>) -> String {
    let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
    outcomes.join(" ")
}

/// A call that pays an order.
fn paying(handle: &Idempotency, order: u32) -> GuardedCall {
    handle.call("orders.pay").key(&order).ttl(HOUR)
}

/// Whether the transaction may be retried.
fn is_retryable(error: &Error) -> bool {
    sql::is_retryable(error)
}

/// The texts of an error and its causes.
fn causes(error: &dyn StdError) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", causes(cause)),
        None => error.to_string(),
    }
}
