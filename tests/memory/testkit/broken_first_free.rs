//! A store with one chosen mistake in its claims of the first free key.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, ClaimAny, Wrap};
use idempotent_runtime::{MemoryStore, Store, StoreError};
use tokio::task::yield_now;

#[derive(Debug, Clone, Copy)]
pub(crate) enum FirstFreeMistake {
    None,
    /// A store that does not override the default.
    NotTogether,
    LooksThenClaims,
    ClaimsAnother,
    NamesTheFirst,
    RenewsOwn,
    NotTogetherButStored,
}

#[derive(Debug)]
pub(crate) struct BrokenFirstFree {
    store: MemoryStore,
    mistake: FirstFreeMistake,
}

impl BrokenFirstFree {
    pub(crate) fn new(mistake: FirstFreeMistake) -> Self {
        let store = MemoryStore::new();
        Self { store, mistake }
    }

    /// Claims the first key that was free when it was read.
    async fn look_then_claim(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        let mut taken = Vec::new();
        for (at, (key, value)) in claims.iter().enumerate() {
            let Some(entry) = self.store.get(key).await? else {
                yield_now().await;
                self.store.claim(key, value, ttl).await?;
                return Ok(ClaimAny::Claimed(at));
            };
            taken.push(entry.value);
        }
        Ok(ClaimAny::Taken(taken))
    }
}

#[async_trait]
impl Wrap for BrokenFirstFree {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        match self.mistake {
            FirstFreeMistake::NotTogether => return Ok(ClaimAny::NotTogether),
            FirstFreeMistake::LooksThenClaims => return self.look_then_claim(claims, ttl).await,
            FirstFreeMistake::ClaimsAnother => {
                for (at, (key, value)) in claims.iter().enumerate() {
                    let is_free = self.store.get(key).await?.is_none();
                    if is_free && self.store.claim(key, value, ttl).await? == Claim::Claimed {
                        return Ok(ClaimAny::Claimed(at));
                    }
                }
            }
            FirstFreeMistake::RenewsOwn => {
                for (key, value) in claims {
                    self.store.replace(key, value, value, ttl).await?;
                }
            }
            _ => {}
        }
        let claimed = self.store.claim_any(claims, ttl).await?;
        Ok(match (self.mistake, claimed) {
            (FirstFreeMistake::NamesTheFirst, ClaimAny::Taken(mut taken)) => {
                taken.truncate(1);
                ClaimAny::Taken(taken)
            }
            (FirstFreeMistake::NotTogetherButStored, _) => ClaimAny::NotTogether,
            (_, claimed) => claimed,
        })
    }
}
