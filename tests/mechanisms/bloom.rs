//! The Bloom filter: what it remembers, how often it is wrong, and that it never decides.

mod deciding;
mod rates;
mod rotation;
mod setup;
mod table;
mod trouble;

mod million;
mod redis;
mod redis_trouble;
mod server;

use std::future::ready;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use idempotent_runtime::{Bloom, Hint, Store};
use support::patient::patient;

const DAY: Duration = Duration::from_hours(24);

/// A filter for a day with an error rate of 1 %.
fn bloom(store: impl Store, capacity: u64) -> Bloom {
    let idempotency = patient(store);
    idempotency.bloom("orders.no", capacity, 0.01, DAY).unwrap()
}

/// Marks the members concurrently, and counts the perhaps seen members.
async fn perhaps_seen(bloom: &Bloom, members: impl Iterator<Item = u64>) -> u64 {
    let hints = members.map(async |member| bloom.hint(&member).await.unwrap());
    let hints = stream::iter(hints).buffer_unordered(64);
    let perhaps_seen = hints.filter(|hint| ready(*hint == Hint::PerhapsSeen));
    perhaps_seen.count().await as u64
}
