//! A store with only the four required operations.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, Entry, Swap, async_trait};
use idempotent_runtime::{Store, StoreError};
use tokio::task::yield_now;

/// Hides the other operations of the inner store, and yields before each operation, so that other tasks can run in between.
#[derive(Debug, Clone)]
pub struct RequiredOnly<S>(pub S);

#[async_trait]
impl<S: Store> Store for RequiredOnly<S> {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        yield_now().await;
        self.0.claim(key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        yield_now().await;
        self.0.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        yield_now().await;
        self.0.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        yield_now().await;
        self.0.get(key).await
    }
}
