//! The way of a process to the store, on which messages are lost.

use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{Fault, World};
use crate::store::{Claim, Entry, Swap};
use crate::{MemoryStore, Store, StoreError, StoreErrorKind};

/// How late a message may come: less than a lease and its grace.
const LATE: Duration = Duration::from_secs(5);

/// The way of one process to the store.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) process: usize,
    pub(super) store: Arc<MemoryStore>,
    pub(super) shared: Arc<Shared>,
}

/// What all processes of a history share.
#[derive(Default)]
pub(super) struct Shared {
    world: Mutex<World>,
    /// The caller stops to poll the call.
    pub(super) stops: Notify,
}

impl Shared {
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no test panicked with it")
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Link {
    async fn send<T, F>(
        &self,
        operation: impl FnOnce(Arc<MemoryStore>) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let error = |kind| Err(StoreError::new(kind, "a fault"));
        let operation = operation(Arc::clone(&self.store));
        let fault = {
            let mut world = self.shared.world();
            if world.dead.contains(&self.process) {
                None
            } else {
                let number = world.messages;
                world.messages += 1;
                Some(world.faults.remove(&number))
            }
        };
        let Some(fault) = fault else {
            return pending().await;
        };
        match fault {
            None => operation.await,
            Some(Fault::LosesRequest) => error(StoreErrorKind::Unknown),
            Some(Fault::NotApplied) => error(StoreErrorKind::NotApplied),
            Some(Fault::LosesReply) => {
                operation.await?;
                error(StoreErrorKind::Unknown)
            }
            Some(Fault::ComesLate) => {
                tokio::spawn(async {
                    sleep(LATE).await;
                    operation.await
                });
                error(StoreErrorKind::Unknown)
            }
            Some(fault @ (Fault::DiesBefore | Fault::DiesAfter)) => {
                if matches!(fault, Fault::DiesAfter) {
                    drop(operation.await);
                }
                self.shared.world().dead.insert(self.process);
                self.shared.stops.notify_one();
                pending().await
            }
            Some(Fault::Drops) => {
                self.shared.stops.notify_one();
                operation.await
            }
            Some(Fault::DropsAfter) => {
                drop(operation.await);
                self.shared.stops.notify_one();
                pending().await
            }
            Some(Fault::BodyFails) => {
                self.shared.world().body_fails = true;
                operation.await
            }
        }
    }
}

#[async_trait]
impl Store for Link {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let (key, value) = (key.to_owned(), value.clone());
        self.send(async move |store: Arc<MemoryStore>| store.claim(&key, &value, ttl).await)
            .await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let (key, expected, value) = (key.to_owned(), expected.clone(), value.clone());
        self.send(async move |store: Arc<MemoryStore>| {
            store.replace(&key, &expected, &value, ttl).await
        })
        .await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let (key, expected) = (key.to_owned(), expected.clone());
        self.send(async move |store: Arc<MemoryStore>| store.remove(&key, &expected).await)
            .await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let key = key.to_owned();
        self.send(async move |store: Arc<MemoryStore>| store.get(&key).await)
            .await
    }
}
