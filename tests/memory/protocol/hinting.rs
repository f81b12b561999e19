//! A store with hints that a test can delay or stop.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotence::testkit::CountingStore;
use idempotent_runtime::store::{Claim, Swap, Wrap};
use idempotent_runtime::{MemoryStore, StoreError};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::protocol::guarded::millis;

/// Only the test sends hints, so that it also sees the behaviour without them.
#[derive(Debug)]
pub(crate) struct Hinting {
    pub(crate) sent: CountingStore<MemoryStore>,
    /// The values of all claims.
    pub(crate) claims: Mutex<Vec<Bytes>>,
    /// How many operations were sent with a notification.
    pub(crate) notifying_commands: AtomicUsize,
    hints: Mutex<Option<watch::Sender<()>>>,
    subscribe_takes: Duration,
    answers_late: AtomicBool,
}

impl Hinting {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_slow_subscribe(Duration::ZERO)
    }

    pub(crate) fn with_slow_subscribe(subscribe_takes: Duration) -> Arc<Self> {
        Arc::new(Self {
            sent: CountingStore::new(MemoryStore::new()),
            claims: Mutex::default(),
            notifying_commands: AtomicUsize::new(0),
            hints: Mutex::new(Some(watch::Sender::new(()))),
            subscribe_takes,
            answers_late: AtomicBool::new(false),
        })
    }

    pub(crate) fn hint(&self) {
        if let Some(hints) = &*self.hints.lock().unwrap() {
            hints.send_replace(());
        }
    }

    /// Closes all receivers. New subscriptions work.
    pub(crate) fn close_receivers(&self) {
        *self.hints.lock().unwrap() = Some(watch::Sender::new(()));
    }

    /// From now on `subscribe` never answers.
    pub(crate) fn hang_subscribe(&self) {
        *self.hints.lock().unwrap() = None;
    }

    /// Applies the next claim immediately, but answers 100 ms later.
    pub(crate) fn answer_late(&self) {
        self.answers_late.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Wrap for Hinting {
    type Inner = CountingStore<MemoryStore>;

    fn inner(&self) -> &CountingStore<MemoryStore> {
        &self.sent
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.claims.lock().unwrap().push(value.clone());
        let answer = self.sent.claim(key, value, ttl).await;
        if self.answers_late.swap(false, Ordering::SeqCst) {
            sleep(millis(100)).await;
        }
        answer
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.notifying_commands.fetch_add(1, Ordering::SeqCst);
        self.replace(key, expected, value, ttl).await
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.notifying_commands.fetch_add(1, Ordering::SeqCst);
        self.remove(key, expected).await
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        // Only counts the call: the inner store gives no hints.
        let _ = self.sent.subscribe(key).await;
        if !self.subscribe_takes.is_zero() {
            sleep(self.subscribe_takes).await;
        }
        let hints = self
            .hints
            .lock()
            .unwrap()
            .as_ref()
            .map(watch::Sender::subscribe);
        match hints {
            Some(hints) => Some(hints),
            None => pending().await,
        }
    }
}
