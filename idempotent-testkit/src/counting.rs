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

use super::op::{Counts, Op, with_operations};

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
        let sent = |op| self.counter(op).load(Ordering::SeqCst);
        Counts::new(sent, self.sent.subscribe.load(Ordering::SeqCst))
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
