//! A store that others share.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::answer::{Claim, Count, Entry, Hint, Swap};
use super::contract::Store;
use super::durability::Durability;
use super::filter::{Fill, Filter};
use super::finding::Finding;
use crate::error::store::StoreError;

#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        S::claim(self, key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        S::replace(self, key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        S::remove(self, key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        S::get(self, key).await
    }

    async fn replace_and_tell(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        S::replace_and_tell(self, key, expected, value, ttl).await
    }

    async fn remove_and_tell(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        S::remove_and_tell(self, key, expected).await
    }

    async fn changed(&self, key: &str) -> Option<watch::Receiver<()>> {
        S::changed(self, key).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        S::exchange(self, key, expected, value).await
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        S::count(self, key, attempt, window).await
    }

    async fn add(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        S::add(self, set, member, owner, retention).await
    }

    async fn take_out(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        S::take_out(self, set, member, owner, retention).await
    }

    async fn mark(&self, filter: &Filter, member: &[u8]) -> Result<Hint, StoreError> {
        S::mark(self, filter, member).await
    }

    async fn fill(&self, filter: &Filter) -> Result<Option<Fill>, StoreError> {
        S::fill(self, filter).await
    }

    fn durability(&self) -> Durability {
        S::durability(self)
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        S::examine(self, key, deadline).await
    }

    fn longest_record(&self, bytes: usize) {
        S::longest_record(self, bytes);
    }
}
