//! Calls on threads that race for the permits of a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotent_runtime::MemoryStore;
use idempotent_runtime::store::{Bytes, Claim, ClaimAny, Store, StoreError, Wrap, async_trait};
use tokio::sync::Barrier;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::policy;
use crate::protocol::guarded::{Guarded, run, secs};

/// Reads the key, and ignores the answer to the claim: look, then put.
#[derive(Debug)]
struct LooksThenPuts(MemoryStore);

#[async_trait]
impl Wrap for LooksThenPuts {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        if let Some(entry) = self.0.get(key).await? {
            return Ok(Claim::Taken(entry.value));
        }
        yield_now().await;
        self.0.claim(key, value, ttl).await?;
        Ok(Claim::Claimed)
    }

    async fn claim_any(&self, _: &[(&str, &Bytes)], _: Duration) -> Result<ClaimAny, StoreError> {
        Ok(ClaimAny::NotTogether)
    }
}

/// The most bodies at once, of 24 calls that start together on threads.
async fn most_at_once(store: impl Store) -> usize {
    let guarded = Guarded::on(store, policy());
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let start = Arc::new(Barrier::new(24));
    let calls = (0..24).map(|_| {
        let (guarded, start) = (guarded.elsewhere(), Arc::clone(&start));
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        tokio::spawn(async move {
            start.wait().await;
            let body = async {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                for _ in 0..50 {
                    yield_now().await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            };
            let _ = run(guarded.call(1), body).await;
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    most.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_race_hold_no_more_permits_and_a_broken_store_is_found() {
    let mut most = 0;
    for _ in 0..20 {
        most = most.max(most_at_once(MemoryStore::new()).await);
    }
    assert_eq!(most, 3);
    let control = async { while most_at_once(LooksThenPuts(MemoryStore::new())).await <= 3 {} };
    let found = timeout(secs(60), control).await;
    found.expect("the race is found");
}
