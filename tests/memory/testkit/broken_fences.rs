//! A store with one chosen mistake in its fences.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Fence, FencedClaim, Swap, Wrap};
use idempotent_runtime::{MemoryStore, Store, StoreError, StoreErrorKind};
use tokio::task::yield_now;
use tokio::time::sleep;

#[derive(Debug, Clone, Copy)]
pub(crate) enum FenceMistake {
    None,
    DrawnBeforeTheClaim,
    OnlyTheClock,
    LostWithTheRecord,
    NewForARepeat,
    HidesADeadClaim,
    RaisedByARefusedClaim,
    OverwritesForeignBytes,
    ExpiresWithTheClaim,
    RefusesItsOwnShortClaim,
}

#[derive(Debug)]
pub(crate) struct BrokenFences {
    store: MemoryStore,
    mistake: FenceMistake,
}

impl BrokenFences {
    pub(crate) fn new(mistake: FenceMistake) -> Self {
        let store = MemoryStore::new();
        Self { store, mistake }
    }

    /// Raises the number, and claims nothing.
    async fn draw(&self, fence_key: &str, value: &Bytes) -> Result<Fence, StoreError> {
        let (key, ttl) = (
            format!("draw {fence_key} {value:?}"),
            Duration::from_mins(1),
        );
        let drawn = self.store.claim_fenced(&key, fence_key, value, ttl).await?;
        self.store.remove(&key, value).await?;
        match drawn {
            FencedClaim::Claimed(fence) => Ok(fence),
            FencedClaim::Taken(_) => unreachable!("nobody else uses this key"),
        }
    }

    /// Removes the last number.
    async fn forget(&self, fence_key: &str) -> Result<(), StoreError> {
        if let Some(entry) = self.store.get(fence_key).await? {
            self.store.remove(fence_key, &entry.value).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Wrap for BrokenFences {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        if let FenceMistake::LostWithTheRecord = self.mistake {
            self.forget(&format!("fence:{{{key}}}")).await?;
        }
        self.store.remove(key, expected).await
    }

    async fn claim_fenced(
        &self,
        key: &str,
        fence_key: &str,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<FencedClaim, StoreError> {
        match self.mistake {
            FenceMistake::DrawnBeforeTheClaim => {
                let fence = self.draw(fence_key, value).await?;
                for _ in 0..4 {
                    yield_now().await;
                }
                return Ok(match self.store.claim(key, value, ttl).await? {
                    Claim::Claimed => FencedClaim::Claimed(fence),
                    Claim::Taken(other) => FencedClaim::Taken(other),
                });
            }
            FenceMistake::OnlyTheClock => self.forget(fence_key).await?,
            FenceMistake::NewForARepeat => {
                self.draw(fence_key, &Bytes::from_static(b"another claim"))
                    .await?;
            }
            FenceMistake::RefusesItsOwnShortClaim if ttl < Duration::from_mins(1) => {
                self.store.claim(key, value, 4 * ttl).await?;
                sleep(ttl).await;
                return Ok(FencedClaim::Taken(value.clone()));
            }
            _ => {}
        }
        let claim = self.store.claim_fenced(key, fence_key, value, ttl).await;
        match (self.mistake, claim) {
            (FenceMistake::LostWithTheRecord, Ok(FencedClaim::Claimed(fence))) => {
                let number = fence.attempt.into();
                Ok(FencedClaim::Claimed(Fence { number, ..fence }))
            }
            (FenceMistake::HidesADeadClaim, Ok(FencedClaim::Claimed(fence))) => {
                let took_over = false;
                Ok(FencedClaim::Claimed(Fence { took_over, ..fence }))
            }
            (FenceMistake::RaisedByARefusedClaim, Ok(FencedClaim::Taken(other))) => {
                self.draw(fence_key, value).await?;
                Ok(FencedClaim::Taken(other))
            }
            (FenceMistake::OverwritesForeignBytes, Err(error))
                if error.kind() == StoreErrorKind::Misconfigured =>
            {
                self.forget(fence_key).await?;
                self.store.claim_fenced(key, fence_key, value, ttl).await
            }
            (FenceMistake::ExpiresWithTheClaim, Ok(claim)) => {
                if let Some(entry) = self.store.get(fence_key).await? {
                    let number = entry.value;
                    self.store.replace(fence_key, &number, &number, ttl).await?;
                }
                Ok(claim)
            }
            (_, claim) => claim,
        }
    }
}
