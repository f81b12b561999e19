//! Stores that wrap a memory store.

use std::time::Duration;

use idempotent_runtime::store::{Bytes, Claim, Entry, Swap, async_trait};
use idempotent_runtime::{MemoryStore, Store, StoreError};
use tokio::task::yield_now;

/// The difference between the wrapping store and the memory store.
#[derive(Debug, Clone)]
pub(crate) enum Around {
    /// `exchange` reads, and then writes without a comparison.
    LooksThenPuts(MemoryStore),
    /// Each operation is pending before it is applied, and again before it is answered.
    Slow(MemoryStore),
}

impl Around {
    fn store(&self) -> &MemoryStore {
        let (Self::LooksThenPuts(store) | Self::Slow(store)) = self;
        store
    }

    async fn slowly<T>(&self, operation: impl Future<Output = T> + Send) -> T {
        let slow = matches!(self, Self::Slow(_));
        if slow {
            yield_now().await;
        }
        let answer = operation.await;
        if slow {
            yield_now().await;
        }
        answer
    }
}

#[async_trait]
impl Store for Around {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.slowly(self.store().claim(key, value, ttl)).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let replace = self.store().replace(key, expected, value, ttl);
        self.slowly(replace).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.slowly(self.store().remove(key, expected)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.slowly(self.store().get(key)).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        match self {
            Self::Slow(store) => self.slowly(store.exchange(key, expected, value)).await,
            Self::LooksThenPuts(store) => match store.get(key).await? {
                Some(entry) if entry.value == expected => {
                    yield_now().await;
                    let now = store.get(key).await?.unwrap();
                    let ttl = now.ttl.unwrap();
                    store.replace(key, &now.value, value, ttl).await
                }
                Some(entry) => Ok(Swap::Other(entry.value)),
                None => Ok(Swap::Absent),
            },
        }
    }
}
