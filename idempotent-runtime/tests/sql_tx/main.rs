#![cfg(unix)]
#![allow(clippy::unwrap_used)]

//! Calls that their caller's transaction holds, on every database.

#[macro_use]
mod every;
#[path = "../fresh/mod.rs"]
mod fresh;
mod mariadb;
mod postgres;
mod sqlite;
mod turns;

use std::error::Error as StdError;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::testkit::{Fault, FaultyStore};
use idempotent_runtime::{Error, Event, GuardedCall, Idempotency, MemoryStore, sql};

const HOUR: Duration = Duration::from_hours(1);
/// For what is certain to come, on a slow machine, too.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a body may end with.
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
    /// The refusal that it is to be.
    fn refusal(self) -> Error {
        match self {
            Self::Guard(error) => error,
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// A handle whose store must not be used, and what its observer is told.
fn handle() -> (Idempotency, Arc<Mutex<Vec<String>>>) {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Hang);
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let handle = Idempotency::builder(store)
        .largest_result(1000)
        .observer(move |event: &Event<'_>| noted.lock().unwrap().push(event.kind().to_string()))
        .build()
        .unwrap();
    (handle, told)
}

fn taken(told: &Mutex<Vec<String>>) -> String {
    let told = std::mem::take(&mut *told.lock().unwrap());
    told.join(" ")
}

/// A call that pays an order.
fn paying(handle: &Idempotency, order: u32) -> GuardedCall {
    handle.call("orders.pay").key(&order).ttl(HOUR)
}

/// Whether the database says that the transaction may be run again.
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
