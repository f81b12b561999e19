//! No two handles have one machine id at the same time.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use idempotent_runtime::store::{Bytes, Claim, Entry, Swap, async_trait};
use idempotent_runtime::{Idempotency, MemoryStore, OrderNumbers, Store, StoreError};
use tokio::sync::Barrier;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use crate::numbers::{
    LEASE, MILLISECOND, SECRET, SKEW, builder, key_of, machine_of, numbers, occupy, occupy_all_but,
};

const AT_ONCE: usize = 200;

/// The machine ids of many handles that lease an id at the same time. Only 256 of the 1024 ids are free, so the handles collide.
async fn machines_of<S: Store + Clone>(store: S) -> HashSet<i64> {
    occupy(&store, 256..1024).await;
    let barrier = Barrier::new(AT_ONCE);
    let leases = (0..AT_ONCE).map(|_| async {
        barrier.wait().await;
        numbers(store.clone()).await
    });
    let all = join_all(leases).await;
    all.iter().map(machine_of).collect()
}

#[tokio::test(start_paused = true)]
async fn handles_that_lease_at_the_same_time_get_different_machine_ids() {
    for _ in 0..5 {
        assert_eq!(machines_of(MemoryStore::new()).await.len(), AT_ONCE);
    }
}

/// The negative control of the test above.
#[tokio::test(start_paused = true)]
async fn on_a_store_that_reads_and_then_writes_handles_share_machine_ids() {
    let machines = machines_of(Arc::new(LookThenPut::default())).await;
    assert!(machines.len() < AT_ONCE, "{} ids", machines.len());
}

#[tokio::test(start_paused = true)]
async fn other_names_and_prefixes_have_their_own_machine_ids() {
    let store = MemoryStore::new();
    let numbers = numbers(store.clone()).await;
    occupy_all_but(&store, machine_of(&numbers)).await;
    assert!(builder(store.clone()).build().await.is_err());
    let idempotency = Idempotency::new(store.clone());
    assert!(
        OrderNumbers::new(&idempotency, "invoices", SECRET)
            .await
            .is_ok()
    );
    let shop = Idempotency::builder(store).prefix("shop").build().unwrap();
    assert!(OrderNumbers::new(&shop, "orders", SECRET).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_last_free_machine_id_is_found_and_then_the_build_fails() {
    let store = MemoryStore::new();
    occupy_all_but(&store, 777).await;
    let numbers = numbers(store.clone()).await;
    assert_eq!(machine_of(&numbers), 777);
    let error = builder(store).build().await.unwrap_err();
    assert_eq!(
        format!("{error:?}"),
        "no machine id for the order numbers `orders`: all 1024 machine ids are leased, or in the cooldown after a lease"
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_id_that_was_given_back_stays_reserved_for_the_skew() {
    let store = MemoryStore::new();
    let first = numbers(store.clone()).await;
    let id = machine_of(&first);
    occupy_all_but(&store, id).await;
    let clone = first.clone();
    drop(first);
    sleep(LEASE * 10).await;
    assert_eq!(machine_of(&clone), id, "a clone has the same machine id");

    let given_back = Instant::now();
    drop(clone);
    // Lets the task of the lease run before the time advances.
    sleep_until(given_back + SKEW - MILLISECOND).await;
    assert!(builder(store.clone()).build().await.is_err());
    sleep(MILLISECOND).await;
    assert_eq!(machine_of(&numbers(store).await), id);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_until_the_machine_id_is_given_back() {
    let store = MemoryStore::new();
    let idempotency = Idempotency::new(store.clone());
    let numbers = OrderNumbers::new(&idempotency, "orders", SECRET)
        .await
        .unwrap();
    let key = key_of(machine_of(&numbers));
    drop(numbers);
    idempotency.drain(LEASE).await.unwrap();
    let remaining = store.get(&key).await.unwrap().unwrap().ttl.unwrap();
    assert!(remaining <= SKEW, "{remaining:?}");
}

/// Checks whether a key is free, and writes a moment later.
#[derive(Debug, Default)]
struct LookThenPut(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl Store for LookThenPut {
    async fn claim(&self, key: &str, value: &Bytes, _: Duration) -> Result<Claim, StoreError> {
        let found = self.0.lock().unwrap().get(key).cloned();
        if let Some(found) = found {
            return Ok(Claim::Taken(found));
        }
        yield_now().await;
        self.0.lock().unwrap().insert(key.to_owned(), value.clone());
        Ok(Claim::Claimed)
    }

    async fn replace(
        &self,
        _: &str,
        _: &Bytes,
        _: &Bytes,
        _: Duration,
    ) -> Result<Swap, StoreError> {
        Ok(Swap::Done)
    }

    async fn remove(&self, _: &str, _: &Bytes) -> Result<Swap, StoreError> {
        Ok(Swap::Absent)
    }

    async fn get(&self, _: &str) -> Result<Option<Entry>, StoreError> {
        Ok(None)
    }
}
