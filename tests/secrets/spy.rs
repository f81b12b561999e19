//! A store that records the keys and values that it receives.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotence::testkit::FaultyStore;
use idempotent_runtime::MemoryStore;
use idempotent_runtime::store::{Bytes, Claim, Entry, Store, StoreError, Swap, async_trait};

#[derive(Clone)]
pub(crate) struct Spy {
    store: FaultyStore<MemoryStore>,
    /// The keys, one per line, and the values.
    sent: Arc<Mutex<(String, String)>>,
}

static SEEN: AtomicUsize = AtomicUsize::new(0);

impl Spy {
    pub(crate) fn new(store: FaultyStore<MemoryStore>) -> Self {
        let sent = Arc::default();
        Self { store, sent }
    }

    /// Returns and clears the recorded keys and values.
    pub(crate) fn take(&self) -> (String, String) {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    /// The number of values that all spies have received.
    pub(crate) fn seen() -> usize {
        SEEN.load(Ordering::Relaxed)
    }

    fn note(&self, key: &str, values: &[&Bytes]) {
        let mut sent = self.sent.lock().unwrap();
        sent.0.push_str(key);
        sent.0.push('\n');
        for value in values {
            SEEN.fetch_add(1, Ordering::Relaxed);
            sent.1.push_str(&String::from_utf8_lossy(value));
        }
    }
}

impl fmt::Debug for Spy {
    /// Prints the inner store, because the `Debug` of a handle shows its store.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl Store for Spy {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.note(key, &[value]);
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
}
