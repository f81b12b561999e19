//! A call that may be a duplicate: how long it may wait, and how it is refused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::error::{Duplicate, Error};
use crate::mutation::mutation;
use crate::observe::EventKind;
use crate::policy::deadline::first_try;
use crate::policy::{OnStoreError, Release, Settle};
use crate::protocol::context::CallContext;
use crate::protocol::held::Held;
use crate::protocol::lease::Lease;
use crate::protocol::line::{LineAnswer, Place};
use crate::protocol::permit::{PermitRound, TakenKey};
use crate::protocol::poll_limiter::PollLimiter;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::Backoff;
use crate::protocol::seen::{LastHolder, SeenRecord};
use crate::protocol::state::Phase;
use crate::store::{StoreError, StoreErrorKind};

/// A call that may be a duplicate, and contends for the key in the store.
pub(crate) struct Waiter {
    /// The claim that the call makes next, or has made.
    pub(crate) lease: Arc<Lease>,
    pub(crate) limits: WaitLimits,
    pub(crate) poll_limiter: PollLimiter,
    /// The round of a call with permits.
    pub(crate) permit_round: Option<PermitRound>,
    /// The place of a call with permits that waits.
    pub(crate) place: Option<Box<Place>>,
    pub(crate) last_holder: LastHolder,
    /// The claims of this call that have failed, or have no answer. A copy of such a claim may reach the store later.
    pub(crate) refused_claims: Vec<Bytes>,
    has_ended: bool,
}

/// The limits of a call that may be a duplicate: how long it asks the store, and how long it waits for another call.
#[derive(Clone, Copy)]
pub(crate) struct WaitLimits {
    /// Until when the call may ask the store, if it does not wait.
    pub(crate) ask_until: Instant,
    /// Until when the call waits for the end of another call, if it has the option `wait`.
    pub(crate) wait_until: Option<Instant>,
    /// When the call began to wait.
    pub(crate) waiting_since: Option<Instant>,
}

impl WaitLimits {
    pub(crate) fn new(call: &CallContext, began: Instant) -> Self {
        Self {
            ask_until: began + call.shared.deadline(),
            wait_until: call.policy.longest_wait().map(|wait| began + wait),
            waiting_since: None,
        }
    }

    /// Until when the call, or an equal call for it, asks a store that does not answer.
    pub(crate) fn gives_up_at(&self, call: &CallContext) -> Instant {
        let deadline = call.shared.deadline();
        self.wait_until
            .map_or(self.ask_until, |until| until + deadline)
    }

    /// Until when the call waits for an equal call of this process that has the key, in this phase; `None` if it does not wait. With
    /// `settle = "background"` a body that has ended has a caller with its result, who may have made this call.
    pub(crate) fn wait_behind(
        &self,
        call: &CallContext,
        phase: &Phase,
        now: Instant,
    ) -> Option<Instant> {
        let is_ending = matches!(phase, Phase::Settling);
        let in_background = is_ending && call.policy.settle == Settle::Background;
        let until = self.wait_until.max(in_background.then_some(self.ask_until));
        until.filter(|until| *until > now)
    }

    /// Until when the call waits instead of being refused; `None` if it is refused.
    pub(crate) fn waits_until(&self, call: &CallContext, refusal: &Refusal) -> Option<Instant> {
        let may_end = match refusal.plain_error() {
            Some(Error::InProgress(_)) => true,
            // The record of a call that never releases says nothing until it has the result. In every other case the call has ended,
            // its outcome is not known, and a wait for its key could only end in a second run.
            Some(Error::Taken(_)) => call.policy.release == Release::Never && call.policy.replay,
            _ => false,
        };
        self.wait_until
            .filter(|until| may_end && *until > Instant::now() && Handle::try_current().is_ok())
    }

    /// Emits the events of the end.
    pub(crate) fn emit_end(&self, call: &CallContext, refusal: Option<&Refusal>) {
        if let Some(since) = self.waiting_since {
            let waited = call.made_at.map(|_| since.elapsed());
            call.emit(EventKind::Waited, |event| event.lasted(waited));
        }
        if let Some(refusal) = refusal {
            refusal.emit(call);
        }
    }
}

impl Waiter {
    pub(crate) fn new(lease: Arc<Lease>, limits: WaitLimits) -> Self {
        Self {
            permit_round: lease
                .call()
                .policy
                .most_holders()
                .map(|_| PermitRound::default()),
            lease,
            limits,
            poll_limiter: PollLimiter::new(),
            place: None,
            last_holder: None,
            refused_claims: Vec::new(),
            has_ended: false,
        }
    }

    /// Emits the events of the end.
    pub(crate) fn finish(&mut self, end: Result<Held, Refusal>) -> Result<Held, Refusal> {
        self.has_ended = true;
        let refusal = end.as_ref().err();
        self.limits.emit_end(self.lease.call(), refusal);
        end
    }

    pub(crate) fn refusal(&self, record: &Arc<SeenRecord>, is_running: bool) -> Refusal {
        Refusal::from_record(&self.lease, record, is_running)
    }

    /// Until when the call waits instead of being refused; `None` if it is refused.
    pub(crate) fn wait_limit(&self, refusal: &Refusal) -> Option<Instant> {
        self.limits.waits_until(self.lease.call(), refusal)
    }

    /// Waits until the call may claim again. Returns the slot that has changed, if it is known; the refusal, if no time to wait
    /// remains. The store has given the answer `taken` now, or before it stopped answering.
    pub(crate) async fn pause(
        &mut self,
        lease: &Arc<Lease>,
        taken: TakenKey,
        asked_until: Instant,
        is_answer: bool,
    ) -> Result<Option<u8>, Refusal> {
        let TakenKey { record, refusal } = taken;
        if let Some(until) = self.wait_limit(&refusal) {
            self.limits.waiting_since.get_or_insert(asked_until);
            lease
                .in_flight()
                .set_phase(Phase::Waiting(Arc::clone(&record)));
            let calls = match &self.place {
                Some(place) if is_answer => {
                    place.note_refused(self.answer(&record, &refusal, asked_until))
                }
                // The claim of this call may have a permit, so the call asks the store, whether it is the first or not.
                Some(place) => Some(place.note_unanswered().unwrap_or(1)),
                None => Some(1),
            };
            let changed = match calls {
                Some(calls) => self.poll_limiter.pause(lease, until, calls).await,
                None => self.wait_for_turn(until).await.map(|()| None)?,
            };
            if until > Instant::now() || asked_until.elapsed() >= FRESH_ANSWER {
                return Ok(changed);
            }
        }
        lease.leave(Some(record));
        Err(refusal)
    }

    /// Waits behind the calls of this process that wait for a permit of the same key. The refusal, if no time to wait remains.
    pub(crate) async fn stand_in_line(&mut self) -> Result<(), Refusal> {
        let (call, now) = (self.lease.call(), Instant::now());
        let until = self.limits.wait_until.filter(|until| *until > now);
        let Some(until) = until.filter(|_| Handle::try_current().is_ok()) else {
            return Ok(());
        };
        if mutation!(KeepsNoLine) {
            return Ok(());
        }
        let deadline = call.shared.deadline();
        let patience = first_try(deadline) + deadline + LONGEST_SILENCE;
        let permits = call.policy.most_holders().unwrap_or(1);
        let place = Place::new(call.shared.lines(), &call.key(), permits, patience);
        if !self.place.insert(Box::new(place)).is_behind() {
            return Ok(());
        }
        self.limits.waiting_since.get_or_insert(now);
        self.wait_for_turn(until).await
    }

    /// The answer of the store for the other calls of the line.
    fn answer(&self, record: &Arc<SeenRecord>, refusal: &Refusal, at: Instant) -> LineAnswer {
        let duplicate = refusal.plain_error().and_then(Error::duplicate);
        LineAnswer {
            record: Arc::clone(record),
            holders: duplicate.map_or(1, Duplicate::holders),
            at,
            holder: self.last_holder.clone(),
        }
    }

    /// Waits until this call may ask the store: it is the first of its line, or no time remains, and the line has no fresh answer for it.
    async fn wait_for_turn(&mut self, until: Instant) -> Result<(), Refusal> {
        let Some(place) = &self.place else {
            return Ok(());
        };
        let hints = place.turn(until).await;
        // Without it, this call would know no holder if the store does not answer now.
        let known = [self.last_holder.take(), place.last_holder()];
        self.last_holder = known.into_iter().flatten().max_by_key(|(_, until)| *until);
        if let Some(hints) = hints {
            self.poll_limiter.set_hints(hints);
            return Ok(());
        }
        match place.last_answer() {
            Some(last) => Err(self.refusal(&last.record, false).held_by(last.holders)),
            None => Ok(()),
        }
    }

    pub(crate) fn backoff(&self) -> Backoff {
        let (now, limit) = (Instant::now(), self.lease.call().shared.deadline());
        let last = self.limits.gives_up_at(self.lease.call());
        Backoff::until(last.clamp(now + first_try(limit), now + limit), limit)
    }
}

/// The refusal if the store has not answered an equal call of this process.
pub(crate) fn unanswered(call: &CallContext) -> Refusal {
    let error = StoreError::new(StoreErrorKind::Unknown, "no answer to the equal call");
    let error =
        error.reason("did not answer an equal call of this process and was not asked again");
    Error::store(call.site.clone(), error).into()
}

pub(crate) fn refuses_without_store(call: &CallContext) -> bool {
    call.policy.on_store_error.unwrap_or_default() == OnStoreError::Refuse
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            place.leave_hints(self.poll_limiter.take_hints());
        }
        if !self.has_ended {
            self.lease.call().emit_dropped_claim();
        }
    }
}

/// A waiter that times out polls once more unless its last answer is younger than this, which prevents a stampede of final polls.
const FRESH_ANSWER: Duration = Duration::from_millis(25);

/// Longer than the pause between two polls. The first call of a line that is silent for so long, and for the two claims that a store
/// leaves without an answer, is not polled.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);
