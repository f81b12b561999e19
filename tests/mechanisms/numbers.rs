//! Order numbers: their machine ids, their subjects, and the orders that are inserted with them.

mod leases;
mod machines;
mod proofs;
mod redeeming;
mod redis;
mod sqlite;
mod unique;

use std::time::Duration;

use idempotent_runtime::store::Bytes;
use idempotent_runtime::{
    Error, Idempotency, OrderNumber, OrderNumbers, OrderNumbersBuilder, Store,
};

const SECRET: &str = "0123456789abcdef";
const LEASE: Duration = Duration::from_secs(30);
const SKEW: Duration = Duration::from_mins(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const USER: u64 = 42;

/// A new handle on this store, as in another process.
fn builder(store: impl Store) -> OrderNumbersBuilder {
    OrderNumbers::builder(&Idempotency::new(store), "orders", SECRET)
}

async fn numbers(store: impl Store) -> OrderNumbers {
    builder(store).build().await.unwrap()
}

/// The machine id in a number.
fn machine(number: &OrderNumber) -> i64 {
    number.value() >> 12 & 1023
}

fn machine_of(numbers: &OrderNumbers) -> i64 {
    machine(&numbers.issue(&USER).unwrap())
}

fn key_of(machine: i64) -> String {
    format!("idem:#machine:orders:{machine}")
}

/// Leases every machine id except this one to another owner.
async fn occupy_all_but(store: &impl Store, free: i64) {
    occupy(store, (0..1024).filter(|machine| *machine != free)).await;
}

async fn occupy(store: &impl Store, machines: impl IntoIterator<Item = i64>) {
    let (theirs, day) = (Bytes::from("theirs"), Duration::from_hours(24));
    for machine in machines {
        let key = key_of(machine);
        store.claim(&key, &theirs, day).await.unwrap();
    }
}

fn is_unavailable(issued: &Result<OrderNumber, Error>) -> bool {
    issued.as_ref().is_err_and(Error::is_unavailable)
}
