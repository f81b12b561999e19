//! A store that counts operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotent_runtime::store::{
    BloomFilter, BloomStats, Claim, ClaimAll, ClaimAny, Count, Entry, FencedClaim, Hint, Store,
    StoreError, Swap, Wrap,
};
use tokio::sync::watch;

use super::op::{Op, with_operations};

/// Counts the operations that are sent to the inner store. A clone shares the counts.
///
/// An operation counts when its future is first polled, even if no answer arrives.
#[derive(Debug, Clone)]
pub struct CountingStore<S> {
    store: S,
    sent: Arc<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    operations: [AtomicUsize; Op::ALL.len()],
    subscribe: AtomicUsize,
}

/// How many times each operation was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Sends of [`Store::claim`].
    pub claim: usize,
    /// Sends of [`Store::claim_all`].
    pub claim_all: usize,
    /// Sends of [`Store::claim_any`].
    pub claim_any: usize,
    /// Sends of [`Store::claim_fenced`].
    pub claim_fenced: usize,
    /// Sends of [`Store::replace`] and [`Store::replace_and_notify`].
    pub replace: usize,
    /// Sends of [`Store::remove`] and [`Store::remove_and_notify`].
    pub remove: usize,
    /// Sends of [`Store::get`].
    pub get: usize,
    /// Sends of [`Store::exchange`].
    pub exchange: usize,
    /// Sends of [`Store::count`].
    pub count: usize,
    /// Sends of [`Store::set_insert`].
    pub set_insert: usize,
    /// Sends of [`Store::set_remove`].
    pub set_remove: usize,
    /// Sends of [`Store::bloom_insert`].
    pub bloom_insert: usize,
    /// Sends of [`Store::bloom_stats`].
    pub bloom_stats: usize,
    /// Sends of [`Store::subscribe`].
    pub subscribe: usize,
}

impl Counts {
    /// The sum of all sends.
    pub fn total(self) -> usize {
        self.claim
            + self.claim_all
            + self.claim_any
            + self.claim_fenced
            + self.replace
            + self.remove
            + self.get
            + self.exchange
            + self.count
            + self.set_insert
            + self.set_remove
            + self.bloom_insert
            + self.bloom_stats
            + self.subscribe
    }
}

impl<S> CountingStore<S> {
    /// Counts operations on `store`.
    pub fn new(store: S) -> Self {
        Self {
            store,
            sent: Arc::default(),
        }
    }

    /// The operations that were sent so far.
    pub fn counts(&self) -> Counts {
        let count = |op| self.counter(op).load(Ordering::SeqCst);
        Counts {
            claim: count(Op::Claim),
            claim_all: count(Op::ClaimAll),
            claim_any: count(Op::ClaimAny),
            claim_fenced: count(Op::ClaimFenced),
            replace: count(Op::Replace),
            remove: count(Op::Remove),
            get: count(Op::Get),
            exchange: count(Op::Exchange),
            count: count(Op::Count),
            set_insert: count(Op::SetInsert),
            set_remove: count(Op::SetRemove),
            bloom_insert: count(Op::BloomInsert),
            bloom_stats: count(Op::BloomStats),
            subscribe: self.sent.subscribe.load(Ordering::SeqCst),
        }
    }

    /// Sets all counts to zero.
    pub fn reset(&self) {
        for op in Op::ALL {
            self.counter(op).store(0, Ordering::SeqCst);
        }
        self.sent.subscribe.store(0, Ordering::SeqCst);
    }

    /// The inner store, for operations that must not count.
    pub fn inner(&self) -> &S {
        &self.store
    }

    fn counter(&self, op: Op) -> &AtomicUsize {
        &self.sent.operations[op as usize]
    }

    fn count_send(&self, op: Op) -> &S {
        self.counter(op).fetch_add(1, Ordering::SeqCst);
        &self.store
    }
}

macro_rules! count {
    ($($operation:ident $op:ident($($given:ident: &$type:ty),+; $($value:ident: $plain:ty),*) -> $answer:ty;)+) => {
        #[async_trait]
        impl<S: Store> Wrap for CountingStore<S> {
            type Inner = S;

            fn inner(&self) -> &S {
                &self.store
            }

            async fn subscribe(&self, key: &str) -> Option<watch::Receiver<()>> {
                self.sent.subscribe.fetch_add(1, Ordering::SeqCst);
                self.store.subscribe(key).await
            }

            async fn claim_all(&self, claims: &[(&str, &Bytes)], ttl: Duration) -> Result<ClaimAll, StoreError> {
                self.count_send(Op::ClaimAll).claim_all(claims, ttl).await
            }

            async fn claim_any(&self, claims: &[(&str, &Bytes)], ttl: Duration) -> Result<ClaimAny, StoreError> {
                self.count_send(Op::ClaimAny).claim_any(claims, ttl).await
            }

            $(
                async fn $operation(&self, $($given: &$type,)+ $($value: $plain),*) -> Result<$answer, StoreError> {
                    self.count_send(Op::$op).$operation($($given,)+ $($value),*).await
                }
            )+
        }
    };
}

with_operations!(count);
