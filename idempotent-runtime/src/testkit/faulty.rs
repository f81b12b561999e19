//! A store that fails as a test tells it to.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::sleep;

use super::op::Op;
use crate::store::{
    BloomFilter, BloomStats, Claim, Count, Entry, Hint, Store, StoreError, StoreErrorKind, Swap,
    Wrap,
};

/// What goes wrong with one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is not applied, and answers with an error of this kind.
    Fail(StoreErrorKind),
    /// It is applied, and answers with [`StoreErrorKind::Unknown`].
    LoseReply,
    /// It is applied, and never answers.
    ApplyThenHang,
    /// It is not applied, and never answers.
    Hang,
    /// It is applied after this time, and then answers.
    Delay(Duration),
    /// It answers at once with [`StoreErrorKind::Unknown`], and is applied after this time all the
    /// same: a request that was on its way when its sender gave up.
    Ghost(Duration),
}

/// Puts faults in the way of the store inside; a clone shares the faults.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use std::time::Duration;
///
/// use idempotence::MemoryStore;
/// use idempotence::store::{Bytes, Claim, Store};
/// use idempotence::testkit::{Fault, FaultyStore, Op};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = FaultyStore::new(MemoryStore::new());
/// store.next(Op::Claim, Fault::LoseReply);
///
/// let (value, ttl) = (Bytes::from("mine"), Duration::from_secs(30));
/// assert!(store.claim("key", &value, ttl).await.is_err());
/// assert_eq!(store.claim("key", &value, ttl).await.unwrap(), Claim::Claimed);
/// # }
/// ```
#[derive(Debug)]
pub struct FaultyStore<S> {
    shared: Arc<Shared<S>>,
}

#[derive(Debug)]
struct Shared<S> {
    store: S,
    faults: Mutex<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    next: HashMap<Op, VecDeque<Fault>>,
    always: HashMap<Op, Fault>,
}

impl<S> Clone for FaultyStore<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S> FaultyStore<S> {
    /// Stands before `store`, without faults yet.
    pub fn new(store: S) -> Self {
        let faults = Mutex::default();
        Self {
            shared: Arc::new(Shared { store, faults }),
        }
    }

    /// Puts `fault` in the way of the next `op`, or of the one after those already told.
    pub fn next(&self, op: Op, fault: Fault) {
        self.faults().next.entry(op).or_default().push_back(fault);
    }

    /// Puts `fault` in the way of every `op` for which there is no [`next`](Self::next).
    pub fn always(&self, op: Op, fault: Fault) {
        self.faults().always.insert(op, fault);
    }

    /// Puts `fault` in the way of every operation, as [`always`](Self::always).
    pub fn always_all(&self, fault: Fault) {
        for op in Op::ALL {
            self.always(op, fault);
        }
    }

    /// Takes all faults away. What hangs already goes on hanging.
    pub fn heal(&self) {
        *self.faults() = Faults::default();
    }

    /// How many faults told by [`next`](Self::next) were not met yet.
    pub fn left(&self) -> usize {
        self.faults().next.values().map(VecDeque::len).sum()
    }

    /// The store inside, to send without faults.
    pub fn inner(&self) -> &S {
        &self.shared.store
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        let faults = self.shared.faults.lock();
        faults.unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, op: Op) -> Option<Fault> {
        let mut faults = self.faults();
        let next = faults.next.get_mut(&op).and_then(VecDeque::pop_front);
        next.or_else(|| faults.always.get(&op).copied())
    }
}

impl<S: Store> FaultyStore<S> {
    async fn send<T, F, R>(&self, op: Op, apply: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Shared<S>>) -> R + Send + 'static,
        R: Future<Output = Result<T, StoreError>> + Send,
    {
        let shared = Arc::clone(&self.shared);
        match self.fault(op) {
            None => apply(shared).await,
            Some(Fault::Fail(kind)) => Err(StoreError::new(kind, "a fault of the test")),
            Some(Fault::LoseReply) => {
                apply(shared).await?;
                Err(lost())
            }
            Some(Fault::ApplyThenHang) => {
                apply(shared).await?;
                pending().await
            }
            Some(Fault::Hang) => pending().await,
            Some(Fault::Delay(delay)) => {
                sleep(delay).await;
                apply(shared).await
            }
            Some(Fault::Ghost(delay)) => {
                tokio::spawn(async move {
                    sleep(delay).await;
                    apply(shared).await
                });
                Err(lost())
            }
        }
    }
}

fn lost() -> StoreError {
    StoreError::new(StoreErrorKind::Unknown, "the test lost the reply")
}

#[async_trait]
impl<S: Store> Wrap for FaultyStore<S> {
    type Inner = S;

    fn inner(&self) -> &S {
        &self.shared.store
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        let (key, value) = (key.to_owned(), value.clone());
        self.send(Op::Claim, move |shared: Arc<Shared<S>>| async move {
            shared.store.claim(&key, &value, ttl).await
        })
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
        self.send(Op::Replace, move |shared: Arc<Shared<S>>| async move {
            shared.store.replace(&key, &expected, &value, ttl).await
        })
        .await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let (key, expected) = (key.to_owned(), expected.clone());
        self.send(Op::Remove, move |shared: Arc<Shared<S>>| async move {
            shared.store.remove(&key, &expected).await
        })
        .await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let key = key.to_owned();
        self.send(Op::Get, move |shared: Arc<Shared<S>>| async move {
            shared.store.get(&key).await
        })
        .await
    }

    async fn replace_and_notify(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let (key, expected, value) = (key.to_owned(), expected.clone(), value.clone());
        self.send(Op::Replace, move |shared: Arc<Shared<S>>| async move {
            let store = &shared.store;
            store.replace_and_notify(&key, &expected, &value, ttl).await
        })
        .await
    }

    async fn remove_and_notify(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let (key, expected) = (key.to_owned(), expected.clone());
        self.send(Op::Remove, move |shared: Arc<Shared<S>>| async move {
            shared.store.remove_and_notify(&key, &expected).await
        })
        .await
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let (key, expected, value) = (key.to_owned(), expected.clone(), value.clone());
        self.send(Op::Exchange, move |shared: Arc<Shared<S>>| async move {
            shared.store.exchange(&key, &expected, &value).await
        })
        .await
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        let key = key.to_owned();
        self.send(Op::Count, move |shared: Arc<Shared<S>>| async move {
            shared.store.count(&key, attempt, window).await
        })
        .await
    }

    async fn set_insert(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        let (set, member, owner) = (set.to_owned(), member.to_owned(), owner.clone());
        self.send(Op::SetInsert, move |shared: Arc<Shared<S>>| async move {
            shared
                .store
                .set_insert(&set, &member, &owner, retention)
                .await
        })
        .await
    }

    async fn set_remove(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        let (set, member, owner) = (set.to_owned(), member.to_owned(), owner.clone());
        self.send(Op::SetRemove, move |shared: Arc<Shared<S>>| async move {
            let store = &shared.store;
            store.set_remove(&set, &member, &owner, retention).await
        })
        .await
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        let (filter, member) = (filter.clone(), member.to_owned());
        self.send(Op::BloomInsert, move |shared: Arc<Shared<S>>| async move {
            shared.store.bloom_insert(&filter, &member).await
        })
        .await
    }

    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        let filter = filter.clone();
        self.send(Op::BloomStats, move |shared: Arc<Shared<S>>| async move {
            shared.store.bloom_stats(&filter).await
        })
        .await
    }
}
