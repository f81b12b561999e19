//! A store that records the keys and values that it gets.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotent_runtime::store::{Bytes, Claim, Entry, Swap, async_trait};
use idempotent_runtime::{Store, StoreError};

#[derive(Clone)]
pub struct Spy {
    store: Arc<dyn Store>,
    sent: Arc<Mutex<Sent>>,
}

#[derive(Default)]
struct Sent {
    keys: Vec<String>,
    values: Vec<String>,
    claimed: Option<Claim>,
}

impl Spy {
    pub fn new(store: impl Store) -> Self {
        Self {
            store: Arc::new(store),
            sent: Arc::default(),
        }
    }

    /// The keys so far.
    pub fn keys(&self) -> Vec<String> {
        self.sent.lock().unwrap().keys.clone()
    }

    /// Returns and clears the recorded keys and values.
    pub fn take(&self) -> (Vec<String>, Vec<String>) {
        let mut sent = self.sent.lock().unwrap();
        (
            std::mem::take(&mut sent.keys),
            std::mem::take(&mut sent.values),
        )
    }

    /// The answer to every further claim.
    pub fn claims_are(&self, answer: Claim) {
        self.sent.lock().unwrap().claimed = Some(answer);
    }

    fn note(&self, key: &str, values: &[&Bytes]) {
        let mut sent = self.sent.lock().unwrap();
        sent.keys.push(key.to_owned());
        let values = values.iter().map(|value| String::from_utf8_lossy(value));
        sent.values.extend(values.map(Into::into));
    }
}

impl Debug for Spy {
    /// The inner store, because the `Debug` of a handle shows its store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl Store for Spy {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.note(key, &[value]);
        if let Some(claim) = &self.sent.lock().unwrap().claimed {
            return Ok(claim.clone());
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
        self.note(key, &[expected, value]);
        self.store.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.note(key, &[expected]);
        self.store.remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.note(key, &[]);
        self.store.get(key).await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        self.note(key, &[expected, value]);
        self.store.exchange(key, expected, value).await
    }
}
