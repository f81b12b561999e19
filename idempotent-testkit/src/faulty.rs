//! A store that injects faults.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{
    BloomFilter, BloomStats, Claim, ClaimAll, ClaimAny, Count, Entry, FencedClaim, Hint, Store,
    StoreError, StoreErrorKind, Swap, Wrap,
};
use tokio::time::sleep;

use super::op::{Op, with_operations};

/// A fault of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The operation is not applied and answers with an error of this kind.
    Fail(StoreErrorKind),
    /// The operation is applied and answers with [`StoreErrorKind::Unknown`].
    LoseReply,
    /// The operation is applied and never answers.
    ApplyThenHang,
    /// The operation is not applied and never answers.
    Hang,
    /// The operation is applied after this time and then answers.
    Delay(Duration),
    /// The operation answers immediately with [`StoreErrorKind::Unknown`] and is applied after this time,
    /// like a request that arrives after its sender has given up.
    ApplyLate(Duration),
}

/// Injects faults into operations on the inner store. A clone shares the faults.
///
/// ```
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
    /// Wraps `store`, without faults.
    pub fn new(store: S) -> Self {
        let faults = Mutex::default();
        Self {
            shared: Arc::new(Shared { store, faults }),
        }
    }

    /// Injects `fault` into the next `op`. Several faults for one `op` apply in their order, one each.
    pub fn next(&self, op: Op, fault: Fault) {
        self.faults().next.entry(op).or_default().push_back(fault);
    }

    /// Injects `fault` into every `op`, unless a fault of [`next`](Self::next) applies to it.
    pub fn always(&self, op: Op, fault: Fault) {
        self.faults().always.insert(op, fault);
    }

    /// Injects `fault` into every operation, like [`always`](Self::always).
    pub fn always_all(&self, fault: Fault) {
        for op in Op::ALL {
            self.always(op, fault);
        }
    }

    /// Removes all faults. Operations that already hang continue to hang.
    pub fn heal(&self) {
        *self.faults() = Faults::default();
    }

    /// How many faults of [`next`](Self::next) have not been applied yet.
    pub fn remaining_faults(&self) -> usize {
        self.faults().next.values().map(VecDeque::len).sum()
    }

    /// The inner store, for operations without faults.
    pub fn inner(&self) -> &S {
        &self.shared.store
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        let faults = self.shared.faults.lock();
        faults.unwrap_or_else(PoisonError::into_inner)
    }

    fn take_fault(&self, op: Op) -> Option<Fault> {
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
        match self.take_fault(op) {
            None => apply(shared).await,
            Some(Fault::Fail(kind)) => Err(StoreError::new(kind, "a fault that the test injected")),
            Some(Fault::LoseReply) => {
                apply(shared).await?;
                Err(lost_reply())
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
            Some(Fault::ApplyLate(delay)) => {
                tokio::spawn(async move {
                    sleep(delay).await;
                    apply(shared).await
                });
                Err(lost_reply())
            }
        }
    }
}

fn lost_reply() -> StoreError {
    StoreError::new(StoreErrorKind::Unknown, "a reply that the test dropped")
}

fn owned(claims: &[(&str, &Bytes)]) -> Vec<(String, Bytes)> {
    let claims = claims.iter();
    let claims = claims.map(|(key, value)| ((*key).to_owned(), Bytes::clone(value)));
    claims.collect()
}

fn borrowed(claims: &[(String, Bytes)]) -> Vec<(&str, &Bytes)> {
    claims.iter().map(|(key, value)| (&**key, value)).collect()
}

macro_rules! inject {
    ($($operation:ident $op:ident($($given:ident: &$type:ty),+; $($value:ident: $plain:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl<S: Store> Wrap for FaultyStore<S> {
            type Inner = S;

            fn inner(&self) -> &S {
                &self.shared.store
            }

            async fn claim_all(&self, claims: &[(&str, &Bytes)], ttl: Duration) -> Result<ClaimAll, StoreError> {
                let claims = owned(claims);
                let apply = move |shared: Arc<Shared<S>>| async move {
                    shared.store.claim_all(&borrowed(&claims), ttl).await
                };
                self.send(Op::ClaimAll, apply).await
            }

            async fn claim_any(&self, claims: &[(&str, &Bytes)], ttl: Duration) -> Result<ClaimAny, StoreError> {
                let claims = owned(claims);
                let apply = move |shared: Arc<Shared<S>>| async move {
                    shared.store.claim_any(&borrowed(&claims), ttl).await
                };
                self.send(Op::ClaimAny, apply).await
            }

            $(
                async fn $operation(&self, $($given: &$type,)+ $($value: $plain),*) -> Result<$answer, StoreError> {
                    $(let $given = $given.to_owned();)+
                    let apply = move |shared: Arc<Shared<S>>| async move {
                        shared.store.$operation($(&$given,)+ $($value),*).await
                    };
                    self.send(Op::$op, apply).await
                }
            )+
        }
    };
}

with_operations!(inject);
