//! Stores with deliberate mistakes, which the cases must find.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_redis::RedisStore;
use idempotent_runtime::store::{Claim, Entry, Swap};
use idempotent_runtime::{Store, StoreError};

use super::broken;
use super::call_plan::CallPlan;
use super::case::Moment;

/// The mistake of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// Treats the caller's own record as another call's record after a lost reply.
    OwnRecordIsTaken,
    /// Reports an uncertain change as done.
    UnknownIsDone,
    /// Reports an uncertain claim as done.
    UnknownIsClaimed,
}

#[derive(Debug)]
struct Broken(RedisStore, Mistake);

#[async_trait]
impl Store for Broken {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        if self.1 == Mistake::OwnRecordIsTaken
            && let Some(entry) = self.0.get(key).await?
        {
            return Ok(Claim::Taken(entry.value));
        }
        match self.0.claim(key, value, ttl).await {
            Err(_) if self.1 == Mistake::UnknownIsClaimed => Ok(Claim::Claimed),
            answer => answer,
        }
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.swapped(self.0.replace(key, expected, value, ttl).await)
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.swapped(self.0.remove(key, expected).await)
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.0.get(key).await
    }
}

impl Broken {
    fn swapped(&self, answer: Result<Swap, StoreError>) -> Result<Swap, StoreError> {
        match answer {
            Err(_) if self.1 == Mistake::UnknownIsDone => Ok(Swap::Done),
            answer => answer,
        }
    }
}

/// Asserts that a case finds the mistake, with this text. On a slow machine the call ends in most cases before the damage, so the cases
/// are repeated until one finds the mistake.
async fn is_found(moment: Moment, make: fn(RedisStore) -> Broken, finding: &str) {
    let mut seen = Vec::new();
    for _ in 0..10 {
        let plans = CallPlan::all().filter(|plan| plan.replay && plan.succeeds && !plan.is_long);
        let (count, broken) = broken(plans, moment, make).await;
        assert!(
            broken.len() < count,
            "a call without a damaged message must pass"
        );
        if broken.iter().any(|broken| broken.contains(finding)) {
            return;
        }
        seen.extend(broken);
    }
    panic!("{finding:?} was not found: {}", seen.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_refuses_its_own_record_is_found() {
    let make = |store| Broken(store, Mistake::OwnRecordIsTaken);
    is_found(Moment::Call, make, "Refused(").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_ignores_lost_settlements_is_found() {
    let make = |store| Broken(store, Mistake::UnknownIsDone);
    is_found(Moment::Call, make, "the record is Running").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_ignores_lost_claims_is_found() {
    let make = |store| Broken(store, Mistake::UnknownIsClaimed);
    is_found(Moment::Call, make, "without a claim").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_ignores_lost_claims_of_a_batch_is_found() {
    let make = |store| Broken(store, Mistake::UnknownIsClaimed);
    is_found(Moment::Batch, make, "without a claim").await;
}
