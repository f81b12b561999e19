//! A correct store on a machine that stands still at first.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{BloomFilter, Claim, Count, Hint, Wrap};
use idempotent_runtime::{MemoryStore, Store, StoreError};
use tokio::time::sleep;

/// So many keys get late answers: those of the first four attempts of a case.
const LATE_KEYS: usize = 4;
/// No attempt waits for the end of a longer time to live.
const LONG: Duration = Duration::from_mins(1);
/// So many answers of each of them are late.
const LATE_ANSWERS: u32 = 4;

/// Answers the first operations on its first keys only after their time to live.
#[derive(Debug, Default)]
pub(crate) struct LateStore {
    store: MemoryStore,
    late: Mutex<HashMap<String, LateKey>>,
}

#[derive(Debug)]
struct LateKey {
    ttl: Duration,
    answers: u32,
}

impl LateStore {
    async fn answer(&self, key: &str, ttl: Duration) {
        sleep(self.delay(key, ttl)).await;
    }

    fn delay(&self, key: &str, ttl: Duration) -> Duration {
        let mut late = self.late.lock().unwrap();
        if late.len() < LATE_KEYS && ttl < LONG {
            let answers = LATE_ANSWERS;
            late.entry(key.to_owned())
                .or_insert(LateKey { ttl, answers });
        }
        match late.get_mut(key) {
            Some(key) if key.answers > 0 => {
                key.answers -= 1;
                key.ttl
            }
            _ => Duration::ZERO,
        }
    }
}

#[async_trait]
impl Wrap for LateStore {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let answer = self.store.claim(key, value, ttl).await;
        self.answer(key, ttl).await;
        answer
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        let answer = self.store.count(key, attempt, window).await;
        self.answer(key, window).await;
        answer
    }

    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        let answer = self.store.set_insert(set, member, owner, retention).await;
        self.answer(set, retention).await;
        answer
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        let answer = self.store.bloom_insert(filter, member).await;
        self.answer(&filter.key, filter.retention).await;
        answer
    }
}
