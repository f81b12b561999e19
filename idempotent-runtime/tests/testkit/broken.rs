//! Stores with one mistake each.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Claim, Entry, Swap};
use idempotent_runtime::{MemoryStore, Store, StoreError};
use tokio::sync::watch;
use tokio::task::yield_now;

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
    TellingIgnoresExpected,
    TellsNobody,
}

#[derive(Debug)]
pub(crate) struct Broken {
    store: MemoryStore,
    mistake: Mistake,
    ever: Mutex<HashMap<String, Bytes>>,
    listeners: Mutex<HashMap<String, watch::Sender<()>>>,
}

impl Broken {
    pub(crate) fn new(mistake: Mistake) -> Self {
        Self {
            store: MemoryStore::new(),
            mistake,
            ever: Mutex::default(),
            listeners: Mutex::default(),
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

    /// What a change that tells takes for what is expected.
    async fn expected(&self, key: &str, expected: &Bytes) -> Result<Bytes, StoreError> {
        let standing = self.store.get(key).await?;
        Ok(match (self.mistake, standing) {
            (Mistake::TellingIgnoresExpected, Some(entry)) => entry.value,
            _ => expected.clone(),
        })
    }

    fn tell(&self, key: &str) {
        let listeners = self.listeners.lock().unwrap();
        match (self.mistake, listeners.get(key)) {
            (Mistake::TellsNobody, _) | (_, None) => {}
            (_, Some(listeners)) => listeners.send_replace(()),
        }
    }

    /// Puts without looking.
    async fn put(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<(), StoreError> {
        if let Some(entry) = self.store.get(key).await? {
            self.store.replace(key, &entry.value, value, ttl).await?;
        } else {
            self.store.claim(key, value, ttl).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Broken {
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
                let mut ever = self.ever.lock().unwrap();
                let standing = ever.entry(key.to_owned()).or_insert(value.clone());
                if standing != value {
                    return Ok(Claim::Taken(standing.clone()));
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
        let standing = self.store.get(key).await?;
        match (self.mistake, standing) {
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
        let standing = self.store.get(key).await?;
        match (self.mistake, standing) {
            (Mistake::UnconditionalRemove, Some(entry)) => expected = entry.value,
            (Mistake::RemoveOfNothingIsDone, None) => return Ok(Swap::Done),
            _ => {}
        }
        self.ever.lock().unwrap().remove(key);
        self.store.remove(key, &expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.store.get(&self.key(key)).await
    }

    async fn replace_and_tell(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let expected = self.expected(key, expected).await?;
        let swap = self.replace(key, &expected, value, ttl).await?;
        self.tell(key);
        Ok(swap)
    }

    async fn remove_and_tell(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let expected = self.expected(key, expected).await?;
        let swap = self.remove(key, &expected).await?;
        self.tell(key);
        Ok(swap)
    }

    async fn changed(&self, key: &str) -> Option<watch::Receiver<()>> {
        let mut listeners = self.listeners.lock().unwrap();
        Some(listeners.entry(key.to_owned()).or_default().subscribe())
    }
}
