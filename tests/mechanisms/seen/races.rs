//! Concurrent adds of one member.

use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::store::{Bytes, Claim, Entry, StoreError, Swap, async_trait};
use idempotent_runtime::{MemoryStore, SeenSet, Store};
use tokio::sync::Barrier;
use tokio::task::{JoinSet, yield_now};

use crate::seen::{DAY, patient, set_of};

const AT_ONCE: usize = 200;
const ROUNDS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_two_hundred_concurrent_adds_is_the_first() {
    assert_eq!(
        firsts(set_of(&patient(MemoryStore::new()), DAY)).await,
        [1; ROUNDS]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exactly_one_of_two_hundred_concurrent_adds_is_the_first_on_redis() {
    let (_server, store) = crate::seen::servers::private().await;
    assert_eq!(firsts(set_of(&patient(store), DAY)).await, [1; ROUNDS]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_a_store_that_reads_and_then_adds_several_are_the_first() {
    let firsts = firsts(set_of(&patient(LooksFirst(MemoryStore::new())), DAY)).await;
    assert!(firsts.iter().any(|firsts| *firsts > 1), "{firsts:?}");
}

/// How many callers got the answer "first" in each round.
async fn firsts(seen: SeenSet) -> Vec<usize> {
    let mut firsts = Vec::new();
    for round in 0..ROUNDS {
        let start = Arc::new(Barrier::new(AT_ONCE));
        let mut running = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (seen, start) = (seen.clone(), Arc::clone(&start));
            running.spawn(async move {
                start.wait().await;
                seen.first_time(&round).await.unwrap().is_first()
            });
        }
        let answers = running.join_all().await;
        firsts.push(answers.into_iter().filter(|first| *first).count());
    }
    firsts
}

/// Adds in two steps, as `SISMEMBER` and then `SADD`.
#[derive(Debug)]
struct LooksFirst(MemoryStore);

#[async_trait]
impl Store for LooksFirst {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        if let Some(entry) = self.0.get(key).await? {
            return Ok(Claim::Taken(entry.value));
        }
        yield_now().await;
        self.0.claim(key, value, ttl).await?;
        Ok(Claim::Claimed)
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.0.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.0.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.0.get(key).await
    }
}
