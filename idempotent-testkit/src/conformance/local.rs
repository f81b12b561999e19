//! The store under test, used through `Store::local`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Key, Store, StoreError, Swap, Wrap};
use tokio::time::Instant;

/// Uses the operations of [`LocalStore`](idempotent_runtime::store::LocalStore) in place of the operations with the same names, if the store
/// has them.
#[derive(Debug)]
pub(super) struct ThroughLocal(pub(super) Arc<dyn Store>);

#[async_trait]
impl Wrap for ThroughLocal {
    type Inner = dyn Store;

    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        match self.0.local() {
            Some(local) => local.claim_now(&Key::new(key), value, ttl, Instant::now()),
            None => self.0.claim(key, value, ttl).await,
        }
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        match self.0.local() {
            Some(local) => local.replace_now(&Key::new(key), expected, value, ttl, Instant::now()),
            None => self.0.replace(key, expected, value, ttl).await,
        }
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        match self.0.local() {
            Some(local) => local.remove_now(&Key::new(key), expected, Instant::now()),
            None => self.0.remove(key, expected).await,
        }
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        Wrap::replace(self, key, expected, value, ttl).await
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        Wrap::remove(self, key, expected).await
    }
}
