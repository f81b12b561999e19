//! A store that answers without waiting: calls use it without futures.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotence::testkit::CountingStore;
use idempotent_runtime::store::{Claim, Entry, Key, LocalStore, Swap};
use idempotent_runtime::{MemoryStore, Policy, Release, Store, StoreError};
use tokio::time::Instant;

use crate::protocol::guarded::{Guarded, secs, yielding};

/// Panics if one of its futures is used for a change.
#[derive(Debug, Clone)]
struct WithoutFutures(MemoryStore);

impl LocalStore for WithoutFutures {
    fn claim_now(
        &self,
        key: &Key,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Result<Claim, StoreError> {
        self.0.claim_now(key, value, ttl, now)
    }

    fn replace_now(
        &self,
        key: &Key,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Result<Swap, StoreError> {
        self.0.replace_now(key, expected, value, ttl, now)
    }

    fn remove_now(&self, key: &Key, expected: &Bytes, now: Instant) -> Result<Swap, StoreError> {
        self.0.remove_now(key, expected, now)
    }
}

#[async_trait]
impl Store for WithoutFutures {
    async fn claim(&self, _: &str, _: &Bytes, _: Duration) -> Result<Claim, StoreError> {
        panic!("a claim by a future");
    }

    async fn replace(
        &self,
        _: &str,
        _: &Bytes,
        _: &Bytes,
        _: Duration,
    ) -> Result<Swap, StoreError> {
        panic!("a replacement by a future");
    }

    async fn remove(&self, _: &str, _: &Bytes) -> Result<Swap, StoreError> {
        panic!("a removal by a future");
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.0.get(key).await
    }

    fn local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}

#[tokio::test(start_paused = true)]
async fn calls_and_their_duplicates_need_no_future_of_the_store() {
    let store = WithoutFutures(MemoryStore::new());
    let released = Policy::new(secs(60)).release(Release::Always);
    let guarded = Guarded::on(store.clone(), released);
    for _ in 0..2 {
        guarded.run(1, yielding(Ok(()))).await.unwrap();
        assert!(store.0.is_empty(), "the key is free after each call");
    }
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)));
    guarded.run(2, yielding(Ok(()))).await.unwrap();
    let entry = guarded.entry(2).await.unwrap();
    assert!(entry.value.starts_with(b"idem2 D"));
    assert_eq!(entry.ttl, Some(secs(60)));
    let refused = guarded.run(2, yielding(Ok(()))).await.unwrap_err();
    assert!(refused.refusal().is_duplicate());
    guarded.run::<()>(3, yielding(Err(()))).await.unwrap_err();
    assert_eq!(guarded.entry(3).await, None, "a failure frees the key");
}

#[tokio::test(start_paused = true)]
async fn every_change_passes_through_a_store_around_a_local_store() {
    let store = CountingStore::new(MemoryStore::new());
    assert!(store.inner().local().is_some() && store.local().is_none());
    let released = Policy::new(secs(60)).release(Release::Always);
    let guarded = Guarded::on(store.clone(), released);
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    assert_eq!((store.counts().claim, store.counts().remove), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_full_local_store_refuses_a_call() {
    let guarded = Guarded::on(MemoryStore::with_capacity(0), Policy::new(secs(60)));
    let refused = guarded.run(1, yielding(Ok(()))).await.unwrap_err();
    let refused = refused.refusal();
    assert!(refused.is_unavailable(), "{refused}");
}
