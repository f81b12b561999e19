//! A store with one chosen mistake in its claims of several keys.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, ClaimAll, Wrap};
use idempotent_runtime::{MemoryStore, Store, StoreError};
use tokio::task::yield_now;

#[derive(Debug, Clone, Copy)]
pub(crate) enum SeveralMistake {
    None,
    /// A store that does not override the default.
    NotTogether,
    OneAfterAnother,
    OneAfterAnotherWithWithdrawal,
    NamesTheFirst,
    OwnIsTaken,
    RenewsOwn,
    NotTogetherButStored,
}

#[derive(Debug)]
pub(crate) struct BrokenSeveral {
    store: MemoryStore,
    mistake: SeveralMistake,
}

impl BrokenSeveral {
    pub(crate) fn new(mistake: SeveralMistake) -> Self {
        let store = MemoryStore::new();
        Self { store, mistake }
    }

    /// Claims one key after another. With `withdraws` the earlier claims are removed if a key is taken.
    async fn one_after_another(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
        withdraws: bool,
    ) -> Result<ClaimAll, StoreError> {
        for (at, (key, value)) in claims.iter().enumerate() {
            if let Claim::Taken(stored) = self.store.claim(key, value, ttl).await? {
                yield_now().await;
                for (key, value) in claims[..at].iter().filter(|_| withdraws) {
                    self.store.remove(key, value).await?;
                }
                return Ok(ClaimAll::Taken(at, stored));
            }
            yield_now().await;
        }
        Ok(ClaimAll::Claimed)
    }
}

#[async_trait]
impl Wrap for BrokenSeveral {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        let claimed = match self.mistake {
            SeveralMistake::NotTogether => return Ok(ClaimAll::NotTogether),
            SeveralMistake::OneAfterAnother => {
                return self.one_after_another(claims, ttl, false).await;
            }
            SeveralMistake::OneAfterAnotherWithWithdrawal => {
                let mut turned = claims.to_vec();
                if rand::random() {
                    turned.reverse();
                }
                return self.one_after_another(&turned, ttl, true).await;
            }
            SeveralMistake::RenewsOwn => {
                for (key, value) in claims {
                    self.store.replace(key, value, value, ttl).await?;
                }
                self.store.claim_all(claims, ttl).await?
            }
            SeveralMistake::OwnIsTaken => {
                if let Some(entry) = self.store.get(claims[0].0).await? {
                    return Ok(ClaimAll::Taken(0, entry.value));
                }
                self.store.claim_all(claims, ttl).await?
            }
            _ => self.store.claim_all(claims, ttl).await?,
        };
        Ok(match (self.mistake, claimed) {
            (SeveralMistake::NamesTheFirst, ClaimAll::Taken(_, stored)) => {
                ClaimAll::Taken(0, stored)
            }
            (SeveralMistake::NotTogetherButStored, _) => ClaimAll::NotTogether,
            (_, claimed) => claimed,
        })
    }
}
