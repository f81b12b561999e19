//! Sends operations in batches, when many of them have no answer yet.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use idempotent_runtime::port::redis::{BatchTypes, Batches, Limits, Route};

use crate::send::layer::{BaseLayer, Layer};
use crate::send::op::{Op, Order, Reply, SendError};
use crate::send::request::Request;

/// The batches of one server. `S` sends a batch, and also an operation that goes in none.
pub(crate) struct Batched<S: BatchTypes> {
    alone: S,
    operations: Batches<S>,
    /// Renewals have their own queue, because a late renewal loses a lease: neither a full queue nor a batch without an answer
    /// holds them up.
    renewals: Batches<S>,
    /// Its seed is random, so a client cannot choose two keys that wait for each other.
    digests: RandomState,
    /// One call of a script may have the keys of many operations.
    shares_calls: bool,
}

impl<S: BaseLayer> Batched<S> {
    /// `make` makes the sender of single operations, of batches, and of batches of renewals.
    pub(crate) fn new([alone, operations, renewals]: [S; 3], limits: Limits) -> Self {
        // A renewal goes to its queue only when the others go to theirs.
        let all_queued = Limits {
            inline: 0,
            ..limits
        };
        Self {
            alone,
            operations: Batches::new(operations, limits),
            renewals: Batches::new(renewals, all_queued),
            digests: RandomState::default(),
            shares_calls: false,
        }
    }

    /// Lets operations on different keys share a call of a script. A server that has all keys accepts this.
    pub(crate) fn share_calls(self, shares_calls: bool) -> Self {
        Self {
            shares_calls,
            ..self
        }
    }

    /// Renewals use their own queue only while other operations are queued.
    fn route(&self, order: Order) -> Route<'_, S> {
        match order {
            Order::Alone => Route::Inline(None),
            Order::OfKey | Order::Any => self.operations.route(),
            Order::Renewal => match self.operations.route() {
                Route::Queued(_) => self.renewals.route(),
                inline @ Route::Inline(_) => inline,
            },
        }
    }
}

impl<S: BaseLayer> Layer for Batched<S> {
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` stores its arguments twice"
    )]
    fn run(&self, op: &Op<'_>) -> impl Future<Output = Reply> + Send {
        async move {
            match self.route(op.order) {
                Route::Queued(queue) => {
                    let digest = (op.order != Order::Any).then(|| self.digests.hash_one(op.key()));
                    let request = Request::new(op, digest, self.shares_calls);
                    let answer = queue.submit(request).await;
                    answer.map_err(SendError::Store)?
                }
                Route::Inline(_permit) => self.alone.run(op).await,
            }
        }
    }
}
