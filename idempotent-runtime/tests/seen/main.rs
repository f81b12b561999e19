//! Seen-sets, in memory and on private Redis servers.
#![allow(clippy::unwrap_used, missing_docs)]

mod answers;
#[cfg(all(unix, feature = "redis"))]
mod buckets;
#[cfg(all(unix, feature = "redis"))]
mod killed;
#[cfg(all(unix, feature = "redis"))]
mod nodes;
mod races;
#[cfg(all(unix, feature = "redis"))]
mod refusals;
#[cfg(all(unix, feature = "redis"))]
mod replies;
#[cfg(all(unix, feature = "redis"))]
mod servers;
mod unanswered;

use std::time::Duration;

use idempotent_runtime::{Added, FirstTime, Idempotency, SeenSet, Store};

const DAY: Duration = Duration::from_hours(24);

/// The set that most tests ask.
fn set_on(store: impl Store) -> SeenSet {
    set_of(&Idempotency::new(store), DAY)
}

fn set_of(idempotency: &Idempotency, retention: Duration) -> SeenSet {
    // In one part, so that its keys are known.
    let set = idempotency.seen_set("orders.no", retention).unwrap();
    set.shards(1).unwrap()
}

async fn is_first(seen: &SeenSet, member: impl serde::Serialize) -> bool {
    seen.first_time(&member).await.unwrap().is_first()
}

async fn added(seen: &SeenSet, member: impl serde::Serialize) -> Added {
    match seen.first_time(&member).await.unwrap() {
        FirstTime::Yes(added) => added,
        FirstTime::No => panic!("it was seen before"),
    }
}
