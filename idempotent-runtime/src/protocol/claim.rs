//! A claim on its way to the store: the meaning of its answers, and the drop of its call.

use std::sync::Arc;

use tokio::time::Instant;

use crate::error::Error;
use crate::mutation::mutation;
use crate::observe::EventKind;
use crate::policy::OnStoreError;
use crate::protocol::ending::Ending;
use crate::protocol::expiry;
use crate::protocol::held::Guard;
use crate::protocol::kept_claim;
use crate::protocol::lease::Lease;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry;
use crate::protocol::retry::{Backoff, StoreFuture};
use crate::protocol::seen::SeenRecord;
use crate::protocol::settle;
use crate::protocol::state::Phase;
use crate::protocol::stuck;
use crate::protocol::unrecorded;
use crate::store::unsent;
use crate::store::{Claim, FencedClaim, StoreError, StoreErrorKind};

/// A claim on its way to the store. Dropping it withdraws the claim in the background and wakes waiting duplicates.
pub(crate) struct ClaimGuard<'a> {
    lease: &'a Arc<Lease>,
    /// When the first send that may have reached the store was issued; `None` once its outcome is certain.
    first_sent: Option<Instant>,
    /// The last send was not the first.
    is_resend: bool,
    /// Dropping the guard does nothing: other code ends the call.
    is_defused: bool,
    /// Emits `cancelled` on drop.
    reports_cancellation: bool,
}

/// Why a claim did not get the key.
pub(crate) enum NotWon {
    /// This record has the key.
    Taken(Arc<SeenRecord>),
    /// Another call of this process has this outcome, which the store has not taken.
    Known(Arc<SeenRecord>),
    /// The store gave no answer in time.
    Unavailable(StoreError),
    /// The claim was accepted, but the answer was read after the lease had expired.
    TooLate(StoreError),
    /// The store cannot serve the call.
    Refused(Error),
}

impl<'a> ClaimGuard<'a> {
    pub(crate) fn new(lease: &'a Arc<Lease>) -> Self {
        Self {
            lease,
            first_sent: None,
            is_resend: false,
            is_defused: false,
            reports_cancellation: true,
        }
    }

    /// A claim that may have been sent at `first_sent`. The [`Waiter`](crate::protocol::waiter::Waiter) reports how its call ends.
    pub(crate) fn of_waiter(lease: &'a Arc<Lease>, first_sent: Option<Instant>) -> Self {
        Self {
            lease,
            first_sent,
            is_resend: false,
            is_defused: false,
            reports_cancellation: false,
        }
    }

    /// Sends the first claim to a store that answers without waiting. Returns `None` if the store does not.
    pub(crate) fn send_now(&mut self) -> Option<Result<Claim, StoreError>> {
        let lease = self.lease;
        let store = lease.call().shared.store().local()?;
        if lease.call().policy.fence {
            return None;
        }
        let now = *self.first_sent.insert(Instant::now());
        Some(store.claim_now(lease.key(), lease.record(), lease.call().times.expiry, now))
    }

    pub(crate) fn send(&mut self) -> StoreFuture<'a, Claim> {
        self.is_resend = self.first_sent.is_some();
        self.first_sent.get_or_insert_with(Instant::now);
        let lease = self.lease;
        if lease.call().policy.fence {
            return Box::pin(claim_fenced(lease));
        }
        let store = lease.call().shared.store();
        store.claim(lease.key(), lease.record(), lease.call().times.expiry)
    }

    /// Sends the claim, and announces to duplicates when the answer is due.
    pub(crate) async fn send_announced(&mut self, backoff: &Backoff) -> Result<Claim, StoreError> {
        let attempt = backoff.attempt(self.send());
        let due = Instant::now() + attempt.limit();
        self.lease.in_flight().set_phase(Phase::Asking(Some(due)));
        attempt.await
    }

    /// Notes that the claim was sent at this instant, with others, and announces to duplicates when the answer is due.
    pub(crate) fn note_sent(&mut self, at: Instant, due: Instant) {
        self.first_sent = Some(at);
        self.lease.in_flight().set_phase(Phase::Asking(Some(due)));
    }

    /// Notes that the claim is certainly not stored.
    pub(crate) fn note_unstored(&mut self) {
        self.first_sent = None;
    }

    /// Starts the lease of a claim that the store has accepted. Returns `None` if the lease had expired before the answer was read.
    /// With `is_immediate` the expiry is not checked.
    pub(crate) fn start_lease(&mut self, is_immediate: bool) -> Option<Guard> {
        let since = self.possibly_stored_since()?;
        if !self.lease.start(since, is_immediate) {
            return None;
        }
        self.first_sent = None;
        self.is_defused = true;
        stuck::report_takeover(self.lease);
        Some(Guard::Claim)
    }

    /// The instant since which the claim may be stored: its lease begins then. `None` if the claim is certainly not stored.
    fn possibly_stored_since(&self) -> Option<Instant> {
        let since = self.first_sent?;
        if mutation!(DeadlineFromReply) {
            return Some(Instant::now());
        }
        Some(since)
    }

    /// Defuses the guard: the caller ends the call. Returns when the claim was first sent, if it may be stored.
    pub(crate) fn defuse(&mut self) -> Option<Instant> {
        self.is_defused = true;
        self.first_sent.take()
    }

    /// Ends the guard of a call that is refused. [`wait::refuse`](crate::protocol::wait::refuse) has reported how the call ends.
    pub(crate) fn end_refused(&mut self, refusal: &Refusal) {
        self.is_defused = true;
        self.note_taken(refusal);
    }

    /// Notes the answer that another record has the key. The record of another key is the answer to another request, so it does
    /// not say that this claim is not stored.
    pub(crate) fn note_taken(&mut self, refusal: &Refusal) {
        if !matches!(refusal.plain_error(), Some(Error::ForeignRecord(_))) {
            self.first_sent = None;
        }
    }

    /// Sends the claim until an answer is conclusive or no time remains.
    pub(crate) async fn resolve(
        &mut self,
        mut answer: Result<Claim, StoreError>,
        mut backoff: Backoff,
    ) -> Result<Guard, NotWon> {
        let (lease, call) = (self.lease, self.lease.call());
        let mut cause = None;
        let unavailable = loop {
            let error = match answer {
                Ok(Claim::Claimed) => return self.start_lease(false).ok_or_else(too_late),
                Ok(Claim::Taken(other)) => {
                    let seen = Arc::new(SeenRecord::new(lease.key(), other));
                    let seen = expiry::look(lease, seen, &backoff).await;
                    return Err(NotWon::Taken(seen));
                }
                Err(error) => error,
            };
            let first_sent = self.first_sent;
            if error.kind() != StoreErrorKind::Unknown && !self.is_resend {
                self.first_sent = None;
            }
            match error.kind() {
                StoreErrorKind::Misconfigured => {
                    return Err(NotWon::Refused(Error::store(call.site.clone(), error)));
                }
                StoreErrorKind::Full => {
                    // A full store can still read, so a duplicate is still refused as a duplicate.
                    let asked = Instant::now();
                    let current = call.shared.store().get(lease.key());
                    match backoff.attempt(current).await {
                        // An earlier send has stored the claim: a send without an answer, or a send that the client repeated.
                        Ok(Some(entry)) if entry.value == *lease.record() => {
                            self.first_sent = first_sent;
                            if call.policy.fence {
                                // Its number is not known, so the claim is withdrawn.
                                break error;
                            }
                            answer = Ok(Claim::Claimed);
                            continue;
                        }
                        Ok(Some(entry)) => {
                            self.first_sent = None;
                            return Err(NotWon::Taken(kept_claim::seen(lease, entry, asked)));
                        }
                        Ok(None) | Err(_) => break error,
                    }
                }
                _ if !backoff.pause().await => break retry::prefer_cause(cause, error),
                _ => {}
            }
            if let Some(outcome) = unrecorded::of_other(lease) {
                return Err(NotWon::Known(outcome));
            }
            cause = Some(retry::prefer_cause(cause, error));
            answer = self.send_announced(&backoff).await;
        };
        let unavailable = retry::name_deadline(unavailable, call.shared.deadline());
        Err(NotWon::Unavailable(unavailable))
    }

    /// Decides by `on_store_error` whether the body runs. No other call with the key is known.
    pub(crate) fn decide_without_store(&mut self, failure: StoreError) -> Result<Guard, Error> {
        match self.lease.call().policy.on_store_error.unwrap_or_default() {
            OnStoreError::Refuse => Err(Error::store(self.lease.call().site.clone(), failure)),
            OnStoreError::Run => Ok(self.run_unguarded(&failure)),
        }
    }

    /// Whether the future of the only send was dropped before the store sent the claim.
    fn was_unsent(&self) -> bool {
        let store = self.lease.call().shared.store();
        !self.is_resend && store.notes_unsent() && unsent::was_unsent(self.lease.record())
    }

    fn run_unguarded(&mut self, failure: &StoreError) -> Guard {
        let call = self.lease.call();
        call.emit(EventKind::Unguarded, |event| event.caused_by(failure));
        let first_sent = self.first_sent.take();
        // No claim guards the body, so it runs even if this lease has expired.
        let skips_expiry_check = true;
        let since = first_sent.unwrap_or_else(Instant::now);
        self.lease.start(since, skips_expiry_check);
        self.is_defused = true;
        Guard::None {
            may_be_stored: first_sent.is_some(),
        }
    }
}

/// Sends a claim that gets a fence, and notes the fence.
async fn claim_fenced(lease: &Lease) -> Result<Claim, StoreError> {
    let call = lease.call();
    let (store, fence_key) = (call.shared.store(), call.shared.fence_key(lease.key()));
    let claim = store.claim_fenced(lease.key(), &fence_key, lease.record(), call.times.expiry);
    Ok(match claim.await? {
        FencedClaim::Claimed(fence) => {
            // A claim has one fence, however often it was sent.
            lease.claim().fence.get_or_init(|| fence);
            Claim::Claimed
        }
        FencedClaim::Taken(other) => Claim::Taken(other),
    })
}

fn too_late() -> NotWon {
    let late = StoreError::new(StoreErrorKind::Unknown, "a late answer to the claim");
    NotWon::TooLate(late.reason("answered the claim only after the claim's lease had expired"))
}

impl Drop for ClaimGuard<'_> {
    fn drop(&mut self) {
        if self.reports_cancellation && !self.is_defused {
            self.lease.call().emit_end(EventKind::of_a_dropped_call());
        }
        let since = self.possibly_stored_since();
        if let Some(since) = since.filter(|_| !self.was_unsent()) {
            // The withdrawal is tried as long as the claim may block the key: for its lease.
            self.lease.count_from(since);
            settle::settle_in_background(Arc::clone(self.lease), Ending::Withdraw);
        } else if !self.is_defused {
            self.lease.leave(None);
        }
    }
}
