//! Calls whose guard begins the transaction and commits it.
//!
//! Each attempt is a call in a transaction of its caller, and this is the caller. Equal calls of this process wait for the call that
//! has the turn, so they hold no connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use idempotent_driver::port::failure::begin_failed;
use idempotent_driver::sql::driver::TransactionPool;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use crate::call::Call;
use crate::call::answers::{Answers, Judge, Refuse};
use crate::call::in_tx::{InTx, Unclaimed};
use crate::error::{Error, Failure};
use crate::protocol::body_context::IdempotencyContext;
use crate::protocol::refusal::Refusal;
use crate::protocol::seen::SeenRecord;
use crate::protocol::turns::{Turn, Waited};
use crate::result::replay_mode::ReplayMode;
use crate::sql::retry::TransactionAttempts;
use crate::sql::{Retry, TxOutcome, is_outcome_unknown, is_retryable, is_retryable_with_row};
use crate::store::rows::{DEFAULT_ROW_WAIT, row_wait};
use crate::store::{StoreError, StoreErrorKind};

impl Call {
    /// Prepares a call that begins its transaction on `pool`, and repeats all of it as `policy` says. Sends nothing.
    ///
    /// # Errors
    ///
    /// If the call is invalid.
    pub fn begin_on<P: TransactionPool>(self, pool: P, policy: Retry) -> Result<Begin<P>, Refusal> {
        let held = InTx::new(self)?;
        let deadline = held.call().shared.deadline();
        let limit = pool.acquire_timeout().map(|_| deadline);
        Ok(Begin {
            pool,
            held: held.committed_here(limit),
            limit,
            turn: None,
            waited: Duration::ZERO,
            has_lost_commit: false,
            attempts: TransactionAttempts::new(policy),
        })
    }
}

/// A call whose guard begins the transaction and commits it.
///
/// # Cancellation
///
/// If it is dropped, the transaction is rolled back, and an equal call of this process gets the turn. A transaction whose `COMMIT`
/// was sent may be committed.
pub struct Begin<P> {
    /// Its identity names the database as long as the call lives.
    pool: P,
    held: InTx,
    /// How long the database may stay silent: the deadline of the handle, as for the claim in a store.
    limit: Option<Duration>,
    turn: Option<Turn>,
    /// How long the call has waited for its turn.
    waited: Duration,
    /// A `COMMIT` got no answer, so its attempt may be committed.
    has_lost_commit: bool,
    attempts: TransactionAttempts,
}

/// Why an attempt is not committed.
struct Uncommitted<R> {
    /// What the caller gets if there is no other attempt: the outcome, or an error of the guard.
    outcome: Result<R, Error>,
    is_retryable: bool,
}

impl<P: TransactionPool> Begin<P> {
    /// Waits for the equal calls of this process, begins a transaction, and claims the key in it. Round trips: 2, and more for a
    /// duplicate of a call of another process.
    ///
    /// # Errors
    ///
    /// Why the body must not run.
    pub async fn attempt(&mut self) -> Result<P::Transaction, Refusal> {
        // Calls on two databases are not equal.
        if self.turn.is_none()
            && self.held.call().policy.is_guarded()
            && let Some(database) = self.pool.identity()
        {
            self.wait_for_turn(database).await?;
        }
        loop {
            let span = self.held.call().span.clone();
            let (refusal, record) = match self.begin().instrument(span).await {
                Ok(mut tx) => match self.held.claim(&mut tx, self.remaining_wait()).await {
                    Ok(()) => {
                        if let Some(turn) = &self.turn {
                            turn.note_claimed(self.held.call().payload);
                        }
                        return Ok(tx);
                    }
                    Err(Unclaimed { refusal, record }) => {
                        self.roll_back(tx).await;
                        let error = refusal.plain_error();
                        if error.is_some_and(|error| self.allows(error)) && self.pause().await {
                            continue;
                        }
                        (refusal, record)
                    }
                },
                Err(error) => {
                    // Only the row shows whether the earlier attempt is committed.
                    if self.has_lost_commit && self.pause().await {
                        continue;
                    }
                    let site = self.held.call().site.clone();
                    (Error::store(site, error).into(), None)
                }
            };
            self.end_turn(record);
            let refusal = self.after_lost_commit(refusal);
            return Err(self.held.refuse(refusal));
        }
    }

    /// What the body may know about the call. Sends nothing.
    pub fn context<I>(&self) -> IdempotencyContext<I> {
        self.held.context()
    }

    /// Polls the body.
    pub fn poll_body<F: Future + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        body: Pin<&mut F>,
    ) -> Poll<F::Output> {
        self.held.poll_body(cx, body)
    }

    /// Ends an attempt whose body returned `outcome`: commits the transaction after a success, else rolls it back. `None`: the
    /// caller makes another attempt. Round trips: 1, with `replay` 2.
    ///
    /// # Errors
    ///
    /// If the row could not be written.
    pub async fn end<R, E, S, D, K, Via>(
        &mut self,
        answers: &Answers<E, S, D, K>,
        tx: P::Transaction,
        outcome: R,
    ) -> Result<Option<R>, Error>
    where
        R: TxOutcome<Via, P::Error>,
        E: Refuse<R>,
        S: Judge<R>,
        K: ReplayMode<R>,
    {
        match self.commit(answers, tx, outcome).await {
            Ok(outcome) => Ok(Some(outcome)),
            Err(uncommitted) if uncommitted.is_retryable && self.pause().await => Ok(None),
            Err(uncommitted) => self.fail(uncommitted).map(Some),
        }
    }

    /// Does the same as [`end`](Self::end), for a call with one attempt.
    ///
    /// # Errors
    ///
    /// If the row could not be written.
    pub async fn end_once<R, E, S, D, K, Via>(
        &mut self,
        answers: &Answers<E, S, D, K>,
        tx: P::Transaction,
        outcome: R,
    ) -> Result<R, Error>
    where
        R: TxOutcome<Via, P::Error>,
        E: Refuse<R>,
        S: Judge<R>,
        K: ReplayMode<R>,
    {
        match self.commit(answers, tx, outcome).await {
            Ok(outcome) => Ok(outcome),
            Err(uncommitted) => self.fail(uncommitted),
        }
    }

    async fn commit<R, E, S, D, K, Via>(
        &mut self,
        answers: &Answers<E, S, D, K>,
        mut tx: P::Transaction,
        outcome: R,
    ) -> Result<R, Uncommitted<R>>
    where
        R: TxOutcome<Via, P::Error>,
        E: Refuse<R>,
        S: Judge<R>,
        K: ReplayMode<R>,
    {
        let end = answers.end_of(self.held.call(), &outcome);
        if !end.success {
            // Unless the rollback fails, a lost connection may be one to another service, whose work may be done.
            let is_lost = matches!(self.roll_back(tx).await, Some(Err(_)));
            let allows = |cause| self.allows(cause) && (is_lost || is_retryable(cause));
            return Err(Uncommitted {
                is_retryable: outcome.cause().is_some_and(allows),
                outcome: Ok(outcome),
            });
        }
        let record = match self.held.write_end(&end, &mut tx).await {
            Ok(record) => record,
            Err(error) => {
                self.roll_back(tx).await;
                return Err(Uncommitted {
                    is_retryable: self.allows(&error),
                    outcome: Err(error),
                });
            }
        };
        // A `COMMIT` that is given up may still be applied, so nothing is gained by giving it up early.
        let limit = self
            .limit
            .map(|limit| limit.saturating_add(DEFAULT_ROW_WAIT));
        match within(limit, P::commit(tx)).await {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.has_lost_commit |= is_outcome_unknown(&error);
                return Err(Uncommitted {
                    is_retryable: self.allows(&error),
                    outcome: Ok(R::uncommitted(error)),
                });
            }
            None => {
                self.has_lost_commit = true;
                return Err(Uncommitted {
                    is_retryable: self.allows(&io::Error::from(io::ErrorKind::TimedOut)),
                    outcome: Err(self.lost_commit()),
                });
            }
        }
        let seen = |record| Arc::new(SeenRecord::new(self.held.key(), record));
        self.end_turn(record.map(seen));
        self.held.call().emit_outcome(true);
        self.held.finish();
        Ok(outcome)
    }

    /// Begins a transaction. A pool whose connections are all in use is no silent database, so the time for a connection is added to the
    /// limit. Only `BEGIN` is sent, so it is repeated even after a lost connection.
    async fn begin(&mut self) -> Result<P::Transaction, StoreError> {
        let acquire = self.pool.acquire_timeout().unwrap_or_default();
        let limit = self.limit.map(|limit| limit.saturating_add(acquire));
        let mut failure = None;
        let begun = within(limit, async {
            loop {
                let error = match self.pool.begin().await {
                    Ok(tx) => return Some(tx),
                    Err(error) => error,
                };
                // After a lost `COMMIT`, another attempt begins again.
                let repeats = is_retryable_with_row(&error) && !self.has_lost_commit;
                failure = Some(begin_failed(error).into());
                if !repeats || !self.pause().await {
                    return None;
                }
            }
        });
        match begun.await.flatten() {
            Some(tx) => Ok(tx),
            None => Err(failure.unwrap_or_else(|| silent(limit.unwrap_or_default()))),
        }
    }

    /// Rolls the transaction back. `None`: there is no answer yet. Such a connection is used for no other call before the transaction has
    /// ended: the library closes it, or waits for the answer.
    async fn roll_back(&self, tx: P::Transaction) -> Option<Result<(), P::Error>> {
        self.note_unclaimed();
        within(self.limit, P::roll_back(tx)).await
    }

    /// Ends a call that has no other attempt.
    fn fail<R>(&mut self, uncommitted: Uncommitted<R>) -> Result<R, Error> {
        let call = self.held.call();
        match &uncommitted.outcome {
            Ok(_) => call.emit_outcome(false),
            Err(error) => call.emit_refusal(error),
        }
        self.held.finish();
        self.end_turn(None);
        uncommitted.outcome
    }

    /// Waits until no equal call of this process runs, without a connection.
    async fn wait_for_turn(&mut self, database: usize) -> Result<(), Refusal> {
        let call = Arc::clone(self.held.call());
        let (began, wait) = (Instant::now(), row_wait(call.policy.wait));
        let turn = Turn::wait(
            call.shared.turns(),
            (database, Arc::from(self.held.key().as_str())),
            call.payload,
            began + wait,
        );
        let refusal = match turn.instrument(call.span.clone()).await {
            Waited::Turn(turn) => {
                self.turn = Some(turn);
                self.waited = began.elapsed();
                self.attempts.begin();
                return Ok(());
            }
            Waited::Record(record) => Refusal::from_record(&call, &record, false),
            Waited::OtherPayload(since) => Refusal::other_payload(&call, since.elapsed()),
            Waited::TimedOut => Refusal::still_open(&call, began.elapsed()),
        };
        Err(self.held.refuse(refusal))
    }

    /// How long the call may wait for a call of another process.
    fn remaining_wait(&self) -> Option<Duration> {
        let wait = self.held.call().policy.wait;
        if self.waited.is_zero() {
            return wait;
        }
        let remaining = row_wait(wait).saturating_sub(self.waited);
        Some(remaining.max(Duration::from_millis(1)))
    }

    /// The refusal of an attempt. If an earlier attempt may be committed, it does not say that nothing was done.
    fn after_lost_commit(&self, refusal: Refusal) -> Refusal {
        let is_unavailable = refusal.plain_error().is_some_and(Error::is_unavailable);
        if !(self.has_lost_commit && is_unavailable) {
            return refusal;
        }
        self.lost_commit().into()
    }

    fn lost_commit(&self) -> Error {
        let site = self.held.call().site.clone();
        let what = "the reply to its `COMMIT` was lost, and the database did not answer again, so its work may be done or not; make the \
                    same call again";
        Error::LeaseLost(Failure::new(site, what, None))
    }

    /// Whether the policy allows another attempt after `error`.
    fn allows(&self, error: &(dyn std::error::Error + 'static)) -> bool {
        let has_row = self.held.call().policy.is_guarded();
        self.attempts.allow(error, has_row)
    }

    /// Waits before another attempt. `false`: there is no other.
    async fn pause(&mut self) -> bool {
        self.note_unclaimed();
        let is_next = self.attempts.pause().await;
        if is_next {
            self.held.renew();
        }
        is_next
    }

    /// Lets equal calls of this process with another payload wait again: this call may do no work.
    fn note_unclaimed(&self) {
        if let Some(turn) = &self.turn {
            turn.note_unclaimed();
        }
    }

    fn end_turn(&mut self, record: Option<Arc<SeenRecord>>) {
        if let Some(turn) = self.turn.take() {
            turn.end(record);
        }
    }
}

/// Waits for the database, for at most `limit`. `None`: it did not answer.
async fn within<T>(limit: Option<Duration>, answer: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => timeout(limit, answer).await.ok(),
        None => Some(answer.await),
    }
}

/// The error of a database that did not answer within `limit`.
fn silent(limit: Duration) -> StoreError {
    let error = StoreError::new(StoreErrorKind::NotApplied, "`BEGIN` has no answer");
    error.place("the database of the pool").reason(format!(
        "began no transaction within {limit:?} (is it running, and has its pool a free connection?)"
    ))
}

impl<P> fmt::Debug for Begin<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Begin").field(&self.held).finish()
    }
}
