//! A call whose row is in its caller's transaction: the row and the work are committed together, or neither.
//!
//! The row is the claim. So there is no lease, no renewal and no single flight: a duplicate waits for the row in the database.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::call::Call;
use crate::error::{Error, Failure};
use crate::observe::EventKind;
use crate::policy::Release;
use crate::protocol::body_context::IdempotencyContext;
use crate::protocol::context::CallContext;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::{StoreAttempt, StoreFuture};
use crate::protocol::seen::SeenRecord;
use crate::record::kept::Kept;
use crate::record::owner::Owner;
use crate::result::body_outcome::BodyOutcome;
use crate::result::replay_mode::ReplayMode;
use crate::store::rows::{Row, RowClaim, Rows};
use crate::store::{Key, StoreError, StoreErrorKind};
use crate::world::Moment;

impl Call {
    /// Claims the key with a row in the caller's transaction. Round trips: 1, and more for a duplicate, which waits or reads the result.
    ///
    /// # Errors
    ///
    /// Why the body must not run.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped before the database has answered, the row may be in the transaction: roll back the transaction.
    pub fn claim_in(
        self,
        tx: &mut dyn Rows,
    ) -> impl Future<Output = Result<InTx, Refusal>> + Send + use<'_> {
        let held = InTx::new(self);
        async move {
            let mut held = held?;
            let wait = held.row.call.policy.wait;
            match held.claim(tx, wait).await {
                Ok(()) => Ok(held),
                Err(Unclaimed { refusal, .. }) => Err(held.refuse(refusal)),
            }
        }
    }
}

/// A call whose row is in its caller's transaction.
///
/// # Cancellation
///
/// If it is dropped before it is settled, nothing is sent. The transaction decides about the row.
pub struct InTx {
    row: Box<OwnRow>,
    /// Whether the guard commits the transaction.
    is_committed_here: bool,
    /// How long the database may stay silent.
    limit: Option<Duration>,
    has_ended: bool,
}

/// The row of a call.
struct OwnRow {
    call: Arc<CallContext>,
    key: Key,
    owner: Owner,
    record: Bytes,
}

impl OwnRow {
    fn new(call: Arc<CallContext>) -> Self {
        let now = Moment::now();
        let owner = Owner::at(now);
        let key = call.key();
        Self {
            record: call.claim_record(&key, owner, now),
            key,
            owner,
            call,
        }
    }

    fn written(&self) -> Row<'_> {
        Row {
            key: &self.key,
            value: &self.record,
            ttl: self.call.policy.ttl,
        }
    }
}

/// Why a call has no row.
pub(crate) struct Unclaimed {
    pub(crate) refusal: Refusal,
    /// The record that has the key.
    #[cfg_attr(
        not(feature = "sql"),
        expect(dead_code, reason = "a guard that begins the transaction reads it")
    )]
    pub(crate) record: Option<Arc<SeenRecord>>,
}

impl InTx {
    /// A call that has no row yet.
    pub(crate) fn new(call: Call) -> Result<Self, Error> {
        Ok(Self {
            row: Box::new(OwnRow::new(Arc::new(call.in_tx()?))),
            is_committed_here: false,
            limit: None,
            has_ended: false,
        })
    }

    /// The same for a transaction that the guard commits. The database may stay silent for at most `limit`.
    #[cfg(feature = "sql")]
    pub(crate) fn committed_here(mut self, limit: Option<Duration>) -> Self {
        self.is_committed_here = true;
        self.limit = limit;
        self
    }

    #[cfg(feature = "sql")]
    pub(crate) fn call(&self) -> &Arc<CallContext> {
        &self.row.call
    }

    #[cfg(feature = "sql")]
    pub(crate) fn key(&self) -> &Key {
        &self.row.key
    }

    /// Claims the key. A duplicate waits for at most `wait`. If this fails, the call has not ended.
    pub(crate) async fn claim(
        &mut self,
        tx: &mut dyn Rows,
        wait: Option<Duration>,
    ) -> Result<(), Unclaimed> {
        let call = &self.row.call;
        if !call.policy.is_guarded() {
            return Ok(());
        }
        let began = Instant::now();
        let longest_wait = tx.longest_wait(wait).saturating_add(ROUNDED_WAIT);
        let limit = self.limit.map(|limit| limit.saturating_add(longest_wait));
        let claim = within(limit, tx.claim(self.row.written(), wait));
        let mut found = None;
        let refusal = match claim.instrument(call.span.clone()).await {
            Ok(RowClaim::Claimed) => return Ok(()),
            Ok(RowClaim::Taken(record)) => {
                let seen = SeenRecord::new(&self.row.key, record);
                let record = found.insert(Arc::new(seen));
                Refusal::from_record(call, record, false)
            }
            Ok(RowClaim::StillOpen) => Refusal::still_open(call, began.elapsed()),
            Ok(RowClaim::NoTransaction) => Refusal::from(Error::Misconfigured(Failure::new(
                call.site.clone(),
                "`tx` is not in a transaction, or the database has ended it, so the row would not be committed with the work, and the body \
                 did not run; begin a transaction with `begin`",
                None,
            ))),
            Err(error) => self.unwritten(error, "the body did not run").into(),
        };
        Err(Unclaimed {
            refusal,
            record: found,
        })
    }

    /// Gives the call another row for another transaction.
    #[cfg(feature = "sql")]
    pub(crate) fn renew(&mut self) {
        *self.row = OwnRow::new(Arc::clone(&self.row.call));
    }

    /// Ends the call, whose body did not run.
    pub(crate) fn refuse(&mut self, refusal: Refusal) -> Refusal {
        refusal.emit(&self.row.call);
        self.finish();
        refusal
    }

    /// What the body may know about the call. Sends nothing.
    pub fn context<I>(&self) -> IdempotencyContext<I> {
        IdempotencyContext::of_row(&self.row.call)
    }

    /// Polls the body.
    pub fn poll_body<F: Future + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        body: Pin<&mut F>,
    ) -> Poll<F::Output> {
        self.row.call.span.in_scope(|| body.poll(cx))
    }

    /// Ends the call: writes its result into the row, removes the row, or leaves it, as the policy says. At most 1 round trip,
    /// or none after a success without `replay` in the caller's transaction.
    ///
    /// # Errors
    ///
    /// If the result could not be written. In this case the transaction must not be committed.
    pub(crate) async fn settle(mut self, end: BodyOutcome, tx: &mut dyn Rows) -> Result<(), Error> {
        let written = self.write_end(&end, tx).await;
        match &written {
            Ok(_) => self.row.call.emit_outcome(end.success),
            Err(error) => self.row.call.emit_refusal(error),
        }
        self.finish();
        written.map(drop)
    }

    /// Writes the end of the call. Returns the record that has the key after the commit. The call has not ended.
    pub(crate) async fn write_end(
        &self,
        end: &BodyOutcome,
        tx: &mut dyn Rows,
    ) -> Result<Option<Bytes>, Error> {
        let OwnRow {
            call, key, owner, ..
        } = &*self.row;
        let policy = &call.policy;
        let is_unknown = matches!(end.kept, Kept::Unknown);
        let stays = end.success || end.kept.keeps_key();
        if !policy.is_guarded() {
            return Ok(None);
        }
        // The statement also proves that the transaction is whole: PostgreSQL answers the `COMMIT` of a failed one without an error, and
        // MariaDB ends one at a deadlock.
        if is_unknown || stays && (policy.replay || self.is_committed_here) {
            let (now, ttl) = (Moment::now(), call.policy.ttl);
            let done = if is_unknown {
                call.marked_record(key, *owner, now, ttl)
            } else {
                call.done_record(key, *owner, now, ttl, &end.kept)
            };
            let written = within(self.limit, tx.replace(self.row.written(), &done));
            let written = written.instrument(call.span.clone()).await;
            if let Some(error) = self.not_written(written) {
                return Err(error);
            }
            if let Some(why) = end.kept.why_not() {
                call.emit(EventKind::NotKept, |event| event.because(why));
            }
            return Ok(Some(done));
        }
        if !stays && policy.release == Release::OnError {
            // If the removal fails, the transaction is broken, and its rollback removes the row.
            let removed = tx.remove(self.row.written());
            let _ = removed.instrument(call.span.clone()).await;
            return Ok(None);
        }
        Ok(Some(self.row.record.clone()))
    }

    /// Ends the call. `keep` reads the outcome before anything is awaited.
    pub(crate) fn settle_with<'a, R, K: ReplayMode<R>>(
        self,
        keep: K,
        outcome: &R,
        success: bool,
        tx: &'a mut dyn Rows,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<'a, R, K> {
        let end = self.row.call.end_of(keep, outcome, success);
        self.settle(end, tx)
    }

    fn not_written(&self, written: Result<bool, StoreError>) -> Option<Error> {
        match written {
            Ok(true) => None,
            Ok(false) => Some(Error::LeaseLost(Failure::new(
                self.row.call.site.clone(),
                "after the body its row was not in the transaction any more, so a part of the work may be committed \
                 without the rest and without the row; roll the transaction back, and check what the body wrote before you \
                 start the transaction again",
                Some(RowGone.into()),
            ))),
            Err(error) => Some(self.unwritten(error, "nothing may be committed")),
        }
    }

    /// The error of a call whose row could not be written. `so` is the consequence.
    fn unwritten(&self, source: StoreError, so: &str) -> Error {
        let (kind, why) = (source.kind(), source.why());
        let what = match kind {
            StoreErrorKind::Misconfigured => format!("{source}, so {so}"),
            _ if self.is_committed_here => {
                format!("its row could not be written: the database {why}, so {so}")
            }
            _ => format!(
                "its row could not be written: the database {why}, so {so}; roll the transaction back, and run it again if \
                 `sql::is_retryable_with_row` says so"
            ),
        };
        let failure = Failure::new(self.row.call.site.clone(), what, Some(source.into()));
        match kind {
            StoreErrorKind::Misconfigured => Error::Misconfigured(failure),
            _ => Error::Unavailable(failure),
        }
    }

    /// The call has ended, and its end is emitted.
    pub(crate) fn finish(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for InTx {
    fn drop(&mut self) {
        if !self.has_ended {
            self.row.call.emit_end(EventKind::of_a_dropped_call());
        }
    }
}

impl fmt::Debug for InTx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InTx").field(&self.row.call.site).finish()
    }
}

/// Waits for the database, for at most `limit`.
async fn within<T>(limit: Option<Duration>, answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
    match limit {
        Some(limit) => StoreAttempt::new(answer, limit).await,
        None => answer.await,
    }
}

/// MariaDB waits for whole seconds.
const ROUNDED_WAIT: Duration = Duration::from_secs(1);

/// Why a row is no longer in the transaction, as far as a client of the database can know. It is not known whether later
/// statements were committed, so after this error a transaction must not be run again.
#[derive(Debug, thiserror::Error)]
#[error(
    "the database ended the transaction (MySQL and MariaDB do so after a deadlock), so later statements ran outside it, or \
     another statement deleted the row; a body must return the error of every statement, and must not send `ROLLBACK`"
)]
struct RowGone;
