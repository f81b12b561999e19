//! A store that counts what is sent to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use super::Op;
use crate::store::{Claim, Durability, Entry, Finding, Store, StoreError, Swap};

/// Counts the operations that are sent to the store inside; a clone shares the counts.
///
/// A send counts when its future is first polled, answered or not.
#[derive(Debug, Clone)]
pub struct CountingStore<S> {
    store: S,
    sent: Arc<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    operations: [AtomicUsize; Op::ALL.len()],
    changed: AtomicUsize,
}

/// How often each operation was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Sends of [`Store::claim`].
    pub claim: usize,
    /// Sends of [`Store::replace`] and [`Store::replace_and_tell`].
    pub replace: usize,
    /// Sends of [`Store::remove`] and [`Store::remove_and_tell`].
    pub remove: usize,
    /// Sends of [`Store::get`].
    pub get: usize,
    /// Sends of [`Store::changed`].
    pub changed: usize,
}

impl Counts {
    /// All sends.
    pub fn total(self) -> usize {
        self.claim + self.replace + self.remove + self.get + self.changed
    }
}

impl<S> CountingStore<S> {
    /// Counts what is sent to `store`.
    pub fn new(store: S) -> Self {
        Self {
            store,
            sent: Arc::default(),
        }
    }

    /// What was sent so far.
    pub fn counts(&self) -> Counts {
        let [claim, replace, remove, get] = [Op::Claim, Op::Replace, Op::Remove, Op::Get]
            .map(|op| self.of(op).load(Ordering::SeqCst));
        Counts {
            claim,
            replace,
            remove,
            get,
            changed: self.sent.changed.load(Ordering::SeqCst),
        }
    }

    /// Counts from zero again.
    pub fn reset(&self) {
        for op in Op::ALL {
            self.of(op).store(0, Ordering::SeqCst);
        }
        self.sent.changed.store(0, Ordering::SeqCst);
    }

    /// The store inside, to send without counting.
    pub fn inner(&self) -> &S {
        &self.store
    }

    fn of(&self, op: Op) -> &AtomicUsize {
        &self.sent.operations[op as usize]
    }

    fn count(&self, op: Op) -> &S {
        self.of(op).fetch_add(1, Ordering::SeqCst);
        &self.store
    }
}

#[async_trait]
impl<S: Store> Store for CountingStore<S> {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.count(Op::Claim).claim(key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let store = self.count(Op::Replace);
        store.replace(key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.count(Op::Remove).remove(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.count(Op::Get).get(key).await
    }

    async fn replace_and_tell(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let store = self.count(Op::Replace);
        store.replace_and_tell(key, expected, value, ttl).await
    }

    async fn remove_and_tell(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let store = self.count(Op::Remove);
        store.remove_and_tell(key, expected).await
    }

    async fn changed(&self, key: &str) -> Option<watch::Receiver<()>> {
        self.sent.changed.fetch_add(1, Ordering::SeqCst);
        self.store.changed(key).await
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        self.store.examine(key, deadline).await
    }
}
