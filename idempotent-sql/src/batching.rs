//! Changes of many callers in one transaction.
//!
//! One batch is in flight at a time, on one connection of the pool, so the queued changes of a key keep their order. Changes that
//! their callers send have other connections. An overdue batch does not hold up the next batch, which then has another connection.
//! Renewals have their own queue and connection. A change that a batch could not make is sent by its caller, as if there were no
//! batches.

mod kept;
mod queued;
#[cfg(all(test, feature = "sqlite"))]
mod tests;
mod ticket;

use std::future::poll_fn;
use std::hash::BuildHasher as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use foldhash::fast::RandomState;
use idempotent_driver::port::failure;
use idempotent_runtime::port::sql::{
    Answer, BatchTypes, Batches, Limits, Longest, QueueSender, Route, Transport, Unsent,
    count_broken, is_last_poll,
};
use idempotent_runtime::sql::is_retryable;
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use sqlx::Pool;

use self::kept::{KeptConnection, Taken};
pub(super) use self::queued::{ChangeReply, Queued};
use self::ticket::{Ticket, WithdrawOnDrop};
use super::database::Database;
use super::database::batch::{Change, ChangeRequest, Failed, Found, Stage};
use crate::mutation::mutation;

/// The batches of a store.
#[derive(Debug)]
pub(super) struct Batching<DB: Database> {
    pool: Pool<DB>,
    changes: Batches<Transactions<DB>>,
    /// Renewals do not wait for other changes, because a late renewal loses a lease.
    renewals: Batches<Transactions<DB>>,
    /// The batches that wait for a connection.
    acquiring: Arc<AtomicUsize>,
    /// Whether the server has shown that it cannot make batches.
    is_refused: Arc<AtomicBool>,
    /// Its seed is random, so a client cannot choose two keys that wait for each other.
    digests: RandomState,
    /// The number of counts so far.
    counts: AtomicUsize,
}

/// The most counts of one key in a batch. A batch without an answer is repeated, and a record remembers only its last 32
/// attempts.
const COUNTS_OF_A_KEY: usize = 16;

impl<DB: Database> Batching<DB> {
    pub(super) fn new(pool: &Pool<DB>, longest: &Longest) -> Self {
        let acquiring = Arc::<AtomicUsize>::default();
        let is_refused = Arc::<AtomicBool>::default();
        let queue = |inline| {
            let limits = Limits {
                inline,
                in_flight: 1,
                tasks: 8,
                // Large batches count, too.
                bytes_in_flight: 1,
                // Each part would be a commit.
                parts: 1,
                ..Limits::default()
            };
            let transport = Transactions {
                pool: pool.clone(),
                longest: longest.clone(),
                acquiring: Arc::clone(&acquiring),
                is_refused: Arc::clone(&is_refused),
                kept: KeptConnection::new(),
            };
            Batches::new(transport, limits)
        };
        Self {
            pool: pool.clone(),
            changes: queue(DB::INLINE),
            // A renewal that is alone goes as other changes do.
            renewals: queue(0),
            acquiring,
            is_refused,
            digests: RandomState::default(),
            counts: AtomicUsize::new(0),
        }
    }

    /// Whether the server makes batches, as far as is known.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
    }

    /// How to send a change.
    pub(super) fn route(&self, request: &ChangeRequest) -> Route<'_, Transactions<DB>> {
        match self.changes.route() {
            Route::Queued(_) if request.is_renewal() => self.renewals.route(),
            route => route,
        }
    }

    /// Sends a change with others. Ends `unsent` if the change may have been sent when this ends.
    ///
    /// # Errors
    ///
    /// `NotApplied` if the queue is full, if the pool gives no connection before the last poll of the caller, or if the runtime
    /// ends before the change is sent; `Unknown` if the runtime ends before the answer.
    pub(super) async fn submit(
        &self,
        sender: QueueSender<Transactions<DB>>,
        request: ChangeRequest,
        unsent: &mut Unsent<'_>,
    ) -> Result<ChangeReply, StoreError> {
        let ticket = Ticket::default();
        let withdrawal = WithdrawOnDrop {
            ticket: ticket.clone(),
            unsent,
        };
        let queued = Queued {
            digest: self.digest(&request),
            request,
            ticket,
            sends: 0,
        };
        let mut submitted = pin!(sender.submit(queued));
        poll_fn(|cx| match submitted.as_mut().poll(cx) {
            Poll::Ready(answer) => {
                Poll::Ready(answer.map_err(|error| error.place(failure::place(&self.pool))))
            }
            Poll::Pending
                if is_last_poll() && self.lacks_connection() && withdrawal.ticket.withdraw() =>
            {
                Poll::Ready(Err(failure::acquire_overdue(&self.pool).into()))
            }
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    fn lacks_connection(&self) -> bool {
        self.acquiring.load(Ordering::Relaxed) > 0 && !mutation!(HidesExhaustedPool)
    }

    fn digest(&self, request: &ChangeRequest) -> u64 {
        if let Change::Count { .. } = request.change {
            let number = self.counts.fetch_add(1, Ordering::Relaxed);
            return self
                .digests
                .hash_one((&*request.key, number % COUNTS_OF_A_KEY));
        }
        if mutation!(LosesOrder) {
            return rand::random();
        }
        self.digests.hash_one(&*request.key)
    }
}

/// Sends each batch as a transaction.
pub(super) struct Transactions<DB: Database> {
    pool: Pool<DB>,
    longest: Longest,
    acquiring: Arc<AtomicUsize>,
    is_refused: Arc<AtomicBool>,
    kept: KeptConnection<DB>,
}

impl<DB: Database> BatchTypes for Transactions<DB> {
    type Operation = Queued;
    type Reply = ChangeReply;
}

/// The outcome of a change of a batch.
enum ChangeOutcome {
    Found(Found),
    Alone { may_be_applied: bool },
    Again,
}

impl<DB: Database> Transport for Transactions<DB> {
    async fn send(&self, batch: Vec<Queued>) -> Vec<Answer<Queued, ChangeReply>> {
        let taken = match self.kept.take() {
            _ if self.is_refused.load(Ordering::Relaxed) => None,
            Some(kept) => Some(kept),
            None => self.acquire().await,
        };
        // Without a connection each change goes alone, so that each caller gets its own error.
        let mut outcomes: Vec<_> = batch.iter().map(|_| UNSENT).collect();
        if let Some(taken) = taken {
            let is_wanted = |queued: &Queued| queued.ticket.send() || mutation!(SendsWithdrawn);
            let mut sent: Vec<usize> = (0..batch.len())
                .filter(|at| is_wanted(&batch[*at]))
                .collect();
            if mutation!(LosesOrder) {
                sent.reverse();
            }
            sent.sort_by_key(|at| &*batch[*at].request.key);
            let requests: Vec<&ChangeRequest> = sent.iter().map(|at| &batch[*at].request).collect();
            let made = self.make(taken, &requests);
            for (at, outcome) in sent.iter().zip(made.await) {
                outcomes[*at] = outcome;
            }
        }
        let answers = batch.into_iter().zip(outcomes);
        answers
            .map(|(queued, outcome)| queued.answer(outcome, DB::MAX_SENDS))
            .collect()
    }

    fn on_idle(&self) {
        self.kept.release();
    }
}

impl<DB: Database> Transactions<DB> {
    async fn acquire(&self) -> Option<Taken<DB>> {
        let _acquiring = Acquiring::begin(&self.acquiring);
        self.pool.acquire().await.ok().map(Taken::new)
    }

    /// Notes if the server cannot make batches, after a failure of so many changes. Logs this once.
    fn note_refusal(&self, error: &sqlx::Error, changes: usize) {
        let is_refusal = changes > 1 && DB::lacks_batches(error) && !mutation!(SendsRefused);
        if !is_refusal || self.is_refused.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            target: "idempotence",
            "{} does not know the statements that make many changes in one transaction, so from now on each change is sent by \
             itself: use MySQL 8.0 or MariaDB 10.6 or newer without a proxy that refuses several statements in one request, or \
             write `?batch=false` in the URL; it said: {error}",
            failure::place(&self.pool)
        );
    }

    /// Makes the changes, and returns their outcomes in the same order.
    async fn make(&self, mut taken: Taken<DB>, requests: &[&ChangeRequest]) -> Vec<ChangeOutcome> {
        let most = most_bytes(&self.longest);
        let connection = &mut taken.connection;
        let found = match requests {
            [] => Ok(Vec::new()),
            [request] => {
                let found = request.send::<DB>(connection, most).await;
                let found = found.map(|found| vec![found]);
                found.map_err(|error| Stage::Commit.failed(error))
            }
            requests => DB::change_many(connection, requests, most).await,
        };
        match found {
            Ok(found) => {
                // After a failed read the connection may be broken. The pool tests it.
                if found.iter().all(Option::is_some) {
                    self.kept.keep(&self.pool, taken);
                } else {
                    taken.connection.release();
                }
                let found = found.into_iter();
                found
                    .map(|found| found.map_or(UNSENT, ChangeOutcome::Found))
                    .collect()
            }
            Err(Failed {
                error,
                stage,
                is_unusable,
            }) => {
                let is_conflict = is_retryable(&error);
                self.note_refusal(&error, requests.len());
                let error = StoreError::from(failure::statement_failed(error, DB::NAME));
                let is_unanswered = error.kind() == StoreErrorKind::Unknown;
                if is_unanswered {
                    count_broken(requests.len());
                }
                if is_unusable {
                    taken.connection.close();
                } else if !is_unanswered {
                    taken.connection.release();
                }
                let outcome_of = |at| match stage {
                    Stage::Change(failed) if at != failed && mutation!(AnswersForAll) => {
                        ChangeOutcome::Found(Found::Done)
                    }
                    Stage::Begin if is_conflict => ChangeOutcome::Again,
                    Stage::Commit if is_conflict && requests.len() > 1 => ChangeOutcome::Again,
                    Stage::Change(failed) if at != failed && !is_unanswered => ChangeOutcome::Again,
                    Stage::Changes | Stage::Commit => ChangeOutcome::Alone {
                        may_be_applied: is_unanswered,
                    },
                    _ => UNSENT,
                };
                (0..requests.len()).map(outcome_of).collect()
            }
        }
    }
}

const UNSENT: ChangeOutcome = ChangeOutcome::Alone {
    may_be_applied: false,
};

impl Queued {
    /// The change is sent again with others up to `most` times, then alone.
    fn answer(mut self, outcome: ChangeOutcome, most: u32) -> Answer<Self, ChangeReply> {
        let may_be_applied = match outcome {
            ChangeOutcome::Found(found) => return Answer::Reply(ChangeReply::Found(found)),
            ChangeOutcome::Again if self.sends + 1 < most => {
                self.sends += 1;
                self.ticket.wait_again();
                return Answer::Again(self);
            }
            ChangeOutcome::Again => false,
            ChangeOutcome::Alone { may_be_applied } => may_be_applied,
        };
        Answer::Reply(ChangeReply::Alone {
            request: self.request,
            may_be_applied,
        })
    }
}

/// The largest number of bytes that is read of a record, as an argument of `substring`.
pub(super) fn most_bytes(longest: &Longest) -> i32 {
    let most = longest.to_read();
    most.map_or(i32::MAX, |most| i32::try_from(most).unwrap_or(i32::MAX))
}

/// Counts a batch that waits for a connection.
struct Acquiring<'a>(&'a AtomicUsize);

impl<'a> Acquiring<'a> {
    fn begin(number: &'a AtomicUsize) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
