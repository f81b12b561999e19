//! A store whose operations are pending several times.

use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Entry, Swap};
use idempotent_runtime::{MemoryStore, Store, StoreError};
use tokio::task::yield_now;

/// A memory store whose every operation is pending before it is applied and before it is answered.
#[derive(Debug, Default)]
pub(crate) struct Slow(MemoryStore);

async fn slowly<T>(operation: impl Future<Output = T>) -> T {
    yield_now().await;
    let answer = operation.await;
    yield_now().await;
    answer
}

#[async_trait]
impl Store for Slow {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        slowly(self.0.claim(key, value, ttl)).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        slowly(self.0.replace(key, expected, value, ttl)).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        slowly(self.0.remove(key, expected)).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        slowly(self.0.exchange(key, expected, value)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.0.get(key).await
    }
}
