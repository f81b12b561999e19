//! A store with one chosen mistake.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{
    BloomFilter, BloomStats, Claim, Count, Entry, Hint, Key, LocalStore, Swap,
};
use idempotent_runtime::{MemoryStore, Store, StoreError};
use tokio::task::yield_now;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Mistake {
    None,
    LookThenPut,
    UnconditionalRemove,
    OwnValueIsTaken,
    ClaimIgnoresExpiry,
    ReplaceIgnoresExpected,
    ReplaceKeepsTheTtl,
    RemoveOfNothingIsDone,
    RepeatedReplaceIsOther,
    RepeatedClaimRenews,
    TtlInWholeSecondsRoundedDown,
    ValuesAreText,
    KeysWithoutCase,
    LookThenInsert,
    OwnMemberIsTaken,
    AnyOwnerRemoves,
    MembersAreText,
    SetExpiresAtOnce,
    ExchangeLooksThenPuts,
    ExchangeIgnoresExpected,
    ExchangeRenews,
    ExchangeRevives,
    RepeatedExchangeIsOther,
    CountExtendsTheWindow,
    CountReadsThenWrites,
    CountsARepeatTwice,
    FilterForgets,
    FilterLooksThenInserts,
    LocalRemoveIgnoresExpected,
}

#[derive(Debug)]
pub(crate) struct BrokenStore {
    store: MemoryStore,
    mistake: Mistake,
    first_values: Mutex<HashMap<String, Bytes>>,
}

impl BrokenStore {
    pub(crate) fn new(mistake: Mistake) -> Self {
        Self {
            store: MemoryStore::new(),
            mistake,
            first_values: Mutex::default(),
        }
    }

    fn ttl(&self, ttl: Duration) -> Duration {
        match self.mistake {
            Mistake::TtlInWholeSecondsRoundedDown => Duration::from_secs(ttl.as_secs()),
            _ => ttl,
        }
    }

    fn value(&self, value: &Bytes) -> Bytes {
        match self.mistake {
            Mistake::ValuesAreText => String::from_utf8_lossy(value).into_owned().into(),
            _ => value.clone(),
        }
    }

    fn key(&self, key: &str) -> String {
        match self.mistake {
            Mistake::KeysWithoutCase => key.to_lowercase(),
            _ => key.to_owned(),
        }
    }

    /// The key of the record of a member.
    fn member_key(&self, set: &str, member: &[u8]) -> String {
        match self.mistake {
            Mistake::MembersAreText => format!("{set}:{}", String::from_utf8_lossy(member)),
            _ => format!("{set}:{member:?}"),
        }
    }

    /// The remaining time of the set. It began with the first member.
    async fn remaining_of_set(
        &self,
        set: &str,
        retention: Duration,
    ) -> Result<Duration, StoreError> {
        self.store.claim(set, &Bytes::new(), retention).await?;
        let entry = self.store.get(set).await?;
        Ok(entry.and_then(|entry| entry.ttl).unwrap_or(retention))
    }

    /// Stores the value without a comparison.
    async fn put(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<(), StoreError> {
        if let Some(entry) = self.store.get(key).await? {
            self.store.replace(key, &entry.value, value, ttl).await?;
        } else {
            self.store.claim(key, value, ttl).await?;
        }
        Ok(())
    }
}

/// A mistake in futures is not repeated here.
impl LocalStore for BrokenStore {
    fn claim_now(
        &self,
        key: &Key,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Result<Claim, StoreError> {
        self.store.claim_now(key, value, ttl, now)
    }

    fn replace_now(
        &self,
        key: &Key,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Result<Swap, StoreError> {
        self.store.replace_now(key, expected, value, ttl, now)
    }

    fn remove_now(&self, key: &Key, expected: &Bytes, now: Instant) -> Result<Swap, StoreError> {
        match self.store.remove_now(key, expected, now)? {
            Swap::Other(stored) => self.store.remove_now(key, &stored, now),
            swap => Ok(swap),
        }
    }
}

#[async_trait]
impl Store for BrokenStore {
    fn local(&self) -> Option<&dyn LocalStore> {
        matches!(self.mistake, Mistake::LocalRemoveIgnoresExpected).then_some(self as _)
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let (key, value, ttl) = (&*self.key(key), &self.value(value), self.ttl(ttl));
        match self.mistake {
            Mistake::LookThenPut => {
                if let Some(entry) = self.store.get(key).await? {
                    return Ok(if entry.value == value {
                        Claim::Claimed
                    } else {
                        Claim::Taken(entry.value)
                    });
                }
                yield_now().await;
                self.put(key, value, ttl).await?;
                return Ok(Claim::Claimed);
            }
            Mistake::OwnValueIsTaken => {
                if let Some(entry) = self.store.get(key).await? {
                    return Ok(Claim::Taken(entry.value));
                }
            }
            Mistake::ClaimIgnoresExpiry => {
                let mut first_values = self.first_values.lock().unwrap();
                let stored = first_values.entry(key.to_owned()).or_insert(value.clone());
                if stored != value {
                    return Ok(Claim::Taken(stored.clone()));
                }
            }
            Mistake::RepeatedClaimRenews => {
                self.store.replace(key, value, value, ttl).await?;
            }
            _ => {}
        }
        self.store.claim(key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let (key, mut ttl) = (&*self.key(key), self.ttl(ttl));
        let (mut expected, value) = (self.value(expected), &self.value(value));
        let stored = self.store.get(key).await?;
        match (self.mistake, stored) {
            (Mistake::ReplaceIgnoresExpected, Some(entry)) => expected = entry.value,
            (Mistake::ReplaceKeepsTheTtl, Some(entry)) => ttl = entry.ttl.unwrap(),
            (Mistake::RepeatedReplaceIsOther, Some(entry)) if entry.value != expected => {
                return Ok(Swap::Other(entry.value));
            }
            _ => {}
        }
        self.store.replace(key, &expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let (key, mut expected) = (&*self.key(key), self.value(expected));
        let stored = self.store.get(key).await?;
        match (self.mistake, stored) {
            (Mistake::UnconditionalRemove, Some(entry)) => expected = entry.value,
            (Mistake::RemoveOfNothingIsDone, None) => return Ok(Swap::Done),
            _ => {}
        }
        self.first_values.lock().unwrap().remove(key);
        self.store.remove(key, &expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.store.get(&self.key(key)).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let (key, value) = (&*self.key(key), &self.value(value));
        let mut expected = self.value(expected);
        match (self.mistake, self.store.get(key).await?) {
            (Mistake::ExchangeLooksThenPuts, Some(entry)) if entry.value == expected => {
                yield_now().await;
                self.put(key, value, entry.ttl.unwrap()).await?;
                return Ok(Swap::Done);
            }
            (Mistake::ExchangeIgnoresExpected, Some(entry)) => expected = entry.value,
            (Mistake::ExchangeRenews, Some(_)) => {
                let ttl = Duration::from_hours(3);
                return self.store.replace(key, &expected, value, ttl).await;
            }
            (Mistake::ExchangeRevives, None) => {
                self.store.claim(key, value, Duration::from_mins(1)).await?;
                return Ok(Swap::Done);
            }
            (Mistake::RepeatedExchangeIsOther, Some(entry)) if entry.value != expected => {
                return Ok(Swap::Other(entry.value));
            }
            _ => {}
        }
        self.store.exchange(key, &expected, value).await
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        match self.mistake {
            Mistake::CountExtendsTheWindow => {
                let mut count = self.store.count(key, attempt, window).await?;
                if let Some(Entry { value, .. }) = self.store.get(key).await? {
                    self.store.replace(key, &value, &value, window).await?;
                    count.remaining = window;
                }
                Ok(count)
            }
            Mistake::CountReadsThenWrites => {
                let before = self.store.get(key).await?;
                yield_now().await;
                let store = MemoryStore::new();
                let remaining = before.as_ref().and_then(|entry| entry.ttl);
                let remaining = remaining.unwrap_or(window);
                if let Some(entry) = before {
                    store.claim(key, &entry.value, Duration::MAX).await?;
                }
                let count = store.count(key, attempt, Duration::MAX).await?;
                let after = store.get(key).await?.unwrap().value;
                self.put(key, &after, remaining).await?;
                Ok(Count { remaining, ..count })
            }
            Mistake::CountsARepeatTwice => self.store.count(key, rand::random(), window).await,
            _ => self.store.count(key, attempt, window).await,
        }
    }

    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        mut retention: Duration,
    ) -> Result<Claim, StoreError> {
        let key = &self.member_key(set, member);
        match self.mistake {
            Mistake::LookThenInsert => {
                if let Some(entry) = self.store.get(key).await? {
                    return Ok(if entry.value == owner {
                        Claim::Claimed
                    } else {
                        Claim::Taken(entry.value)
                    });
                }
                yield_now().await;
                self.put(key, owner, retention).await?;
                return Ok(Claim::Claimed);
            }
            Mistake::OwnMemberIsTaken => {
                if let Some(entry) = self.store.get(key).await? {
                    return Ok(Claim::Taken(entry.value));
                }
            }
            Mistake::SetExpiresAtOnce => retention = self.remaining_of_set(set, retention).await?,
            _ => {}
        }
        self.claim(key, owner, retention).await
    }

    async fn set_remove(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        _: Duration,
    ) -> Result<Swap, StoreError> {
        let key = &self.member_key(set, member);
        let mut owner = owner.clone();
        if let (Mistake::AnyOwnerRemoves, Some(entry)) = (self.mistake, self.store.get(key).await?)
        {
            owner = entry.value;
        }
        self.remove(key, &owner).await
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        match self.mistake {
            // Forgets one of a hundred members.
            Mistake::FilterForgets
                if member.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 100 == 42 =>
            {
                Ok(Hint::Unseen)
            }
            Mistake::FilterLooksThenInserts => {
                let key = format!("{}:{member:?}", filter.key);
                let hint = match self.store.get(&key).await? {
                    Some(_) => Hint::PerhapsSeen,
                    None => Hint::Unseen,
                };
                yield_now().await;
                self.put(&key, &Bytes::from_static(b"marked"), filter.retention)
                    .await?;
                Ok(hint)
            }
            _ => self.store.bloom_insert(filter, member).await,
        }
    }

    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        match self.mistake {
            Mistake::FilterLooksThenInserts => Ok(None),
            _ => self.store.bloom_stats(filter).await,
        }
    }
}
