//! `on_store_error = "run"`: an outage stops no body, whether the body starts before or during the outage.

use idempotence::testkit::{Fault, FaultyStore};
use idempotent_runtime::{
    Error, Idempotency, MemoryStore, OnLeaseLost, OnStoreError, Policy, StoreErrorKind,
};
use tokio::time::sleep;

use crate::protocol::guarded::{Guarded, secs};

const UNAVAILABLE: Fault = Fault::Fail(StoreErrorKind::NotApplied);

fn policy() -> Policy {
    Policy::new(secs(600)).lease(secs(10))
}

/// The outcome of a body that runs for a minute while the store is unavailable.
async fn outage_in_the_body(policy: Policy) -> &'static str {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy);
    let body = async {
        store.always_all(UNAVAILABLE);
        sleep(secs(60)).await;
        store.heal();
        Ok(())
    };
    let outcome = guarded.run(1, body).await;
    outcome.map_or_else(|failed| failed.refusal().code(), |()| "done")
}

#[tokio::test(start_paused = true)]
async fn with_on_store_error_run_a_running_body_survives_an_outage_unless_on_lease_lost_stops_it() {
    let run = policy().on_store_error(OnStoreError::Run);
    let refuse = policy().on_store_error(OnStoreError::Refuse);
    for (policy, end) in [
        (run, "done"),
        (run.on_lease_lost(OnLeaseLost::Stop), "lease_lost"),
        (run.on_lease_lost(OnLeaseLost::Continue), "done"),
        (policy(), "lease_lost"),
        (refuse, "lease_lost"),
        (refuse.on_lease_lost(OnLeaseLost::Continue), "done"),
    ] {
        assert_eq!(outage_in_the_body(policy).await, end, "{policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_the_builder_survive_an_outage_alike() {
    for (on_lease_lost, end) in [
        (None, "done"),
        (Some(OnLeaseLost::Stop), "lease_lost"),
        (Some(OnLeaseLost::Continue), "done"),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let idempotency = Idempotency::new(store.clone());
        let mut call = idempotency
            .call("orders.pay")
            .key(&1)
            .ttl(secs(10))
            .on_store_error(OnStoreError::Run);
        if let Some(on_lease_lost) = on_lease_lost {
            call = call.on_lease_lost(on_lease_lost);
        }
        let body = async {
            store.always_all(UNAVAILABLE);
            sleep(secs(60)).await;
            store.heal();
            Ok::<_, Error>("done")
        };
        let outcome = call.run(body).await;
        let outcome = outcome.unwrap_or_else(|error| error.code());
        assert_eq!(outcome, end, "{on_lease_lost:?}");
    }
}
