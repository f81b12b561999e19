//! Seen-sets, in memory and on private Redis servers.

mod answers;
mod nodes;
mod races;
mod refusals;
mod replies;
mod servers;
mod stored;
mod unanswered;

use std::time::Duration;

use idempotent_runtime::{Added, FirstTime, Idempotency, SeenSet, Store};
use support::patient::patient;

const DAY: Duration = Duration::from_hours(24);

/// The set of most tests.
fn set_on(store: impl Store) -> SeenSet {
    set_of(&Idempotency::new(store), DAY)
}

fn set_of(idempotency: &Idempotency, retention: Duration) -> SeenSet {
    idempotency.seen_set("orders.no", retention).unwrap()
}

async fn is_first(seen: &SeenSet, member: impl serde::Serialize) -> bool {
    seen.first_time(&member).await.unwrap().is_first()
}

async fn added(seen: &SeenSet, member: impl serde::Serialize) -> Added {
    match seen.first_time(&member).await.unwrap() {
        FirstTime::Yes(added) => added,
        FirstTime::No => panic!("the member must be new"),
    }
}
