//! A store with one chosen mistake in its notifications.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{Swap, Wrap};
use idempotent_runtime::{MemoryStore, Store, StoreError};
use tokio::sync::watch;

#[derive(Debug, Clone, Copy)]
pub(crate) enum HintMistake {
    None,
    NotifyIgnoresExpected,
    NeverNotifies,
    /// The receivers of two of three keys are closed instead of notified.
    ClosesInsteadOfNotifying,
}

#[derive(Debug)]
pub(crate) struct BrokenHints {
    store: MemoryStore,
    mistake: HintMistake,
    /// In the order of their first subscription.
    listeners: Mutex<Vec<(String, watch::Sender<()>)>>,
}

impl BrokenHints {
    pub(crate) fn new(mistake: HintMistake) -> Self {
        Self {
            store: MemoryStore::new(),
            mistake,
            listeners: Mutex::default(),
        }
    }

    /// The expected value that a notifying change uses.
    async fn expected(&self, key: &str, expected: &Bytes) -> Result<Bytes, StoreError> {
        let stored = self.store.get(key).await?;
        Ok(match (self.mistake, stored) {
            (HintMistake::NotifyIgnoresExpected, Some(entry)) => entry.value,
            _ => expected.clone(),
        })
    }

    fn notify(&self, key: &str) {
        let mut listeners = self.listeners.lock().unwrap();
        let mut numbered = listeners.iter_mut().enumerate();
        let Some((at, (_, sender))) = numbered.find(|(_, (of, _))| of == key) else {
            return;
        };
        match self.mistake {
            HintMistake::NeverNotifies => {}
            // The old sender is dropped.
            HintMistake::ClosesInsteadOfNotifying if at % 3 != 2 => {
                *sender = watch::Sender::default();
            }
            _ => {
                sender.send_replace(());
            }
        }
    }
}

#[async_trait]
impl Wrap for BrokenHints {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let expected = self.expected(key, expected).await?;
        let swap = self.store.replace(key, &expected, value, ttl).await?;
        self.notify(key);
        Ok(swap)
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let expected = self.expected(key, expected).await?;
        let swap = self.store.remove(key, &expected).await?;
        self.notify(key);
        Ok(swap)
    }

    async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
        let mut listeners = self.listeners.lock().unwrap();
        if let Some((_, sender)) = listeners.iter().find(|(of, _)| of == key) {
            return Some(sender.subscribe());
        }
        let (sender, receiver) = watch::channel(());
        listeners.push((key.to_owned(), sender));
        Some(receiver)
    }
}
