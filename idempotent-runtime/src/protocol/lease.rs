//! One claim of one call: its record, its lease, and what its end sends. The call shares it with its renewals.

mod more;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::error::Site;
use crate::key::fingerprint::Fingerprint;
use crate::mutation::mutation;
use crate::observe::EventKind;
use crate::policy::deadline::first_try;
use crate::policy::times::SHORTEST_TTL;
use crate::policy::{Release, Settle};
use crate::protocol::context::{CallContext, OfCall};
use crate::protocol::ending::Ending;
use crate::protocol::in_flight::{InFlight, InFlightTable, Leader};
use crate::protocol::own_claim::OwnClaim;
use crate::protocol::scheduler::Scheduler;
use crate::protocol::seen::SeenRecord;
use crate::protocol::state::{LastSeen, Phase, State, Term};
use crate::protocol::steps::Steps;
use crate::record::call::Record;
use crate::record::kept::Kept;
use crate::record::keys_digest::KeysDigest;
use crate::store::Key;
use crate::sync::MutexGuard;
use crate::world::Moment;

/// A call and one claim of it: its record, and the lease that the call has after the store has accepted the claim.
///
/// [`Claim`](crate::store::Claim) is only the store's answer. How long a lease lasts is `lease_time` in the call's times.
/// A call needs one allocation. The key and the record are made when they are first needed: a follower does not need them.
pub(crate) struct Lease {
    of: CallRef,
    claim: OnceLock<OwnClaim>,
}

/// The call of a claim.
#[expect(clippy::large_enum_variant, reason = "most calls have one claim")]
enum CallRef {
    /// The first claim of a call has the call.
    First(FirstClaim),
    /// A later claim refers to the first claim. It may claim another slot of the key.
    Later(Arc<Lease>, u8),
}

struct FirstClaim {
    call: CallContext,
    in_flight: InFlight,
    more: OnceLock<FurtherOrSteps>,
}

/// What few calls have.
enum FurtherOrSteps {
    /// The claims of the further keys of the call.
    Further(Box<[Arc<Lease>]>),
    /// The steps of its body. A call with further keys has none.
    Steps(Arc<Steps>),
}

impl Lease {
    /// The first claim of a call. `hash` is the hash of its key in the table of calls in flight.
    #[inline]
    pub(crate) fn new(call: CallContext, hash: u64) -> Arc<Self> {
        let in_flight = InFlight::new(hash);
        Arc::new(Self {
            of: CallRef::First(FirstClaim {
                call,
                in_flight,
                more: OnceLock::new(),
            }),
            claim: OnceLock::new(),
        })
    }

    /// The next claim of the same call, with a new owner. A call makes it after the store has answered that the key is taken.
    ///
    /// All claims of a call share one state. So the guard of the earlier claim must be defused before a later lease starts.
    pub(crate) fn with_new_owner(self: Arc<Self>) -> Arc<Self> {
        let slot = self.slot();
        self.with_slot(slot)
    }

    fn first(&self) -> &FirstClaim {
        match &self.of {
            CallRef::First(first) => first,
            CallRef::Later(first, _) => first.first(),
        }
    }

    pub(crate) fn call(&self) -> &CallContext {
        &self.first().call
    }

    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.first().in_flight
    }

    pub(crate) fn claim(&self) -> &OwnClaim {
        self.claim.get_or_init(|| {
            let key = match &self.of {
                CallRef::First(first) => first.call.key(),
                CallRef::Later(first, 0) => first.key().clone(),
                CallRef::Later(_, slot) => self.call().key_of(&self.call().site_of_slot(*slot)),
            };
            OwnClaim::new(self.call(), key)
        })
    }

    /// The key in the store.
    pub(crate) fn key(&self) -> &Key {
        &self.claim().key
    }

    /// The record of the claim.
    pub(crate) fn record(&self) -> &Bytes {
        &self.claim().record
    }

    fn table(&self) -> &InFlightTable {
        self.call().shared.in_flight_table()
    }

    /// Enters the table of calls in flight. If an equal call is in the table, returns the equal call instead.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Arc<dyn Leader>> {
        self.enter_or_replace(|_| false)
    }

    /// Does the same as [`enter`](Self::enter), but replaces an equal call that `may_replace` accepts. The first claim enters for its call.
    pub(crate) fn enter_or_replace(
        self: &Arc<Self>,
        may_replace: impl FnOnce(&Arc<dyn Leader>) -> bool,
    ) -> Option<Arc<dyn Leader>> {
        match &self.of {
            CallRef::First(_) => self.table().enter(self, may_replace),
            CallRef::Later(first, _) => self.table().enter(first, may_replace),
        }
    }

    /// The other call of this process with the same key, if there is one in the table.
    pub(crate) fn find_other(&self) -> Option<Arc<dyn Leader>> {
        self.table().find_other(self.listed())
    }

    /// The claim that is in the table for the call.
    fn listed(&self) -> &Self {
        match &self.of {
            CallRef::First(_) => self,
            CallRef::Later(first, _) => first,
        }
    }

    /// Ends the call for its followers. `record` is the stored record, if it is known.
    pub(crate) fn leave(&self, record: Option<Arc<SeenRecord>>) {
        self.table().leave(self.listed(), last_seen(record));
    }

    /// Does the same as [`leave`](Self::leave), for a call that got no answer from the store.
    pub(crate) fn leave_unavailable(&self) {
        self.table().leave(self.listed(), LastSeen::Unavailable);
    }

    /// Does the same as [`leave`](Self::leave), for a call that sends nothing more: stops its renewal.
    pub(crate) fn finish(&self, record: Option<&Bytes>) {
        let seen = || {
            last_seen(record.map(|record| Arc::new(SeenRecord::new(self.key(), record.clone()))))
        };
        self.table().finish(self.listed(), |_| None, seen);
    }

    /// Does the same as [`finish`](Self::finish), for a call whose end sends nothing. With `release = false` a renewal may be
    /// in flight: after its answer the record is set to expire at the right time.
    pub(crate) fn finish_unsent(&self) {
        let call = self.call();
        let is_held = call.policy.release == Release::Never;
        let hold_until = |state: &State| is_held.then(|| state.since() + call.times.expiry);
        self.table()
            .finish(self.listed(), hold_until, || LastSeen::Unknown);
    }

    /// Counts the lease from `since`: from then on the claim may be stored.
    pub(crate) fn count_from(&self, since: Instant) {
        let lease_time = self.call().times.lease_time;
        self.in_flight().state().start_lease(since, lease_time);
    }

    /// Starts the lease, counted from `since`. Returns `false` if it has already expired. With `skips_expiry_check` this is not
    /// checked, and the clock is not read.
    pub(crate) fn start(&self, since: Instant, skips_expiry_check: bool) -> bool {
        let mut state = self.in_flight().state();
        state.start_lease(since, self.call().times.lease_time);
        if !skips_expiry_check && Instant::now() >= state.good_until() {
            return false;
        }
        if let CallRef::Later(..) = self.of {
            state.set_shown_record(self.key(), self.record());
        }
        let phase = match self.call().token {
            None => Phase::Running,
            // The token may still be refused, so followers must not see the call as running yet.
            Some(_) => Phase::Asking(Some(
                Instant::now() + first_try(self.call().shared.deadline()),
            )),
        };
        InFlight::set_phase_in(state, phase);
        true
    }

    /// Marks the lease as lost if it has expired. Returns why the body must no longer be polled in this case.
    pub(crate) fn lose_if_expired(&self) -> Option<&'static str> {
        let state = self.in_flight().state();
        match state.phase() {
            Phase::Lost(why) => Some(why),
            Phase::Running if Instant::now() >= state.good_until() => {
                Some(self.lose(state, NOT_IN_TIME))
            }
            _ => None,
        }
    }

    /// Marks the lease as lost, and wakes the task that polls the body.
    pub(crate) fn lose(&self, mut state: MutexGuard<'_, State>, why: &'static str) -> &'static str {
        state.set_phase(Phase::Lost(why));
        let body = state.take_body();
        drop(state);
        self.leave(None);
        self.call()
            .emit(EventKind::Overrun, |event| event.because(why));
        if let Some(body) = body {
            body.wake();
        }
        why
    }

    /// The scheduler that renews this lease, else the scheduler of the current runtime.
    pub(crate) fn scheduler(&self) -> Option<Arc<Scheduler>> {
        let scheduler = self.in_flight().state().scheduler().cloned();
        scheduler.or_else(Scheduler::current)
    }

    /// Notes that the body has returned. Returns what the end of the call sends, if anything.
    pub(crate) fn begin_settling(&self, success: bool, kept: &Kept) -> Option<Ending> {
        let mut state = self.in_flight().state();
        let is_lost = state.is_lost();
        if !is_lost {
            state.set_phase(Phase::Settling);
        }
        state.take_body();
        let term = state.term();
        drop(state);
        // Recording the work that is done does no harm after the lease, because the record of another call is never replaced.
        let ending = self.ending_after(term, success, kept);
        ending.filter(|ending| !is_lost || matches!(ending, Ending::Complete(_)))
    }

    /// Notes that the body was dropped, and stops all renewal. Returns whether the lease was already lost.
    pub(crate) fn drop_body(&self) -> bool {
        let mut state = self.in_flight().state();
        let is_lost = state.is_lost();
        state.set_phase(Phase::Dropped);
        state.stop_renewal();
        is_lost
    }

    /// The command that the end of the call sends, by `release`. A failure with a stored result counts as a success.
    pub(crate) fn ending(&self, success: bool, kept: &Kept) -> Option<Ending> {
        let term = self.in_flight().state().term();
        self.ending_after(term, success, kept)
    }

    fn ending_after(&self, term: Term, success: bool, kept: &Kept) -> Option<Ending> {
        let stays = success || matches!(kept, Kept::Result(_));
        let (policy, times) = (&self.call().policy, &self.call().times);
        match policy.release {
            _ if !success && matches!(kept, Kept::Unknown) && !mutation!(UnknownFreesKey) => {
                Some(self.unknown())
            }
            Release::Always => Some(self.free_after(term)),
            Release::OnError if !stays => Some(self.free_after(term)),
            Release::OnError => Some(self.complete(policy.ttl, kept)),
            Release::Never => {
                let now = Instant::now();
                if now >= term.since + policy.ttl {
                    Some(Ending::Remove)
                } else if stays && policy.replay {
                    let remaining = (term.since + times.expiry).duration_since(now);
                    Some(self.complete(remaining, kept))
                } else {
                    self.hold_to_ttl_after(term)
                }
            }
        }
    }

    /// What frees the key of a call that has ended: at once, or when `at_least` has passed since the claim.
    pub(crate) fn free(&self) -> Ending {
        self.free_after(self.in_flight().state().term())
    }

    fn free_after(&self, term: Term) -> Ending {
        match self.call().policy.at_least {
            Some(at_least) if Instant::now() < term.since + at_least => {
                Ending::SetExpiry(term.since + at_least)
            }
            _ => Ending::Remove,
        }
    }

    fn complete(&self, ttl: Duration, kept: &Kept) -> Ending {
        let OwnClaim { owner, process, .. } = self.claim();
        let now = Moment::now_of(*process);
        Ending::Complete(self.call().done_record(self.key(), *owner, now, ttl, kept))
    }

    /// The record of a call whose outcome is unknown, for `ttl` from now on, whatever `release` says.
    pub(crate) fn unknown(&self) -> Ending {
        let OwnClaim { owner, process, .. } = self.claim();
        let (now, call) = (Moment::now_of(*process), self.call());
        Ending::Complete(call.marked_record(self.key(), *owner, now, call.policy.ttl))
    }

    /// With `release = false`: sets a renewed claim to expire `ttl` after it was made.
    pub(crate) fn hold_to_ttl(&self) -> Option<Ending> {
        self.hold_to_ttl_after(self.in_flight().state().term())
    }

    fn hold_to_ttl_after(&self, term: Term) -> Option<Ending> {
        let is_too_long = self.call().policy.release == Release::Never && term.was_renewed;
        is_too_long.then(|| Ending::SetExpiry(term.since + self.call().times.expiry))
    }

    /// The time to live of `end`, the record of the end of the call, from now on.
    pub(crate) fn end_ttl(&self, end: &Bytes) -> Duration {
        match self.call().policy.release {
            Release::Never if !Record::may_be_claim(end) => {
                let taken_until = self.in_flight().state().since() + self.call().times.expiry;
                taken_until.duration_since(Instant::now()).max(SHORTEST_TTL)
            }
            _ => self.call().policy.ttl,
        }
    }

    /// Notes when the record of the ended call must expire.
    pub(crate) fn hold_until(&self, until: Instant) {
        self.in_flight().state().set_hold_until(until);
    }

    /// Whether the caller gets its result before the end of the call is in the store.
    pub(crate) fn settles_in_background(&self) -> bool {
        self.call().policy.settle == Settle::Background && self.scheduler().is_some()
    }

    /// When the lease expires.
    pub(crate) fn good_until(&self) -> Instant {
        self.in_flight().state().good_until()
    }
}

impl OfCall for Lease {
    fn call(&self) -> &CallContext {
        self.call()
    }
}

impl Leader for Lease {
    fn in_flight(&self) -> &InFlight {
        self.in_flight()
    }

    fn site(&self) -> &Site {
        &self.call().site
    }

    fn keys(&self) -> Option<KeysDigest> {
        self.call().keys
    }

    fn payload(&self) -> Option<&Fingerprint> {
        self.call().payload.as_ref()
    }

    fn key(&self) -> &Key {
        self.key()
    }

    fn shown_record(&self) -> Arc<SeenRecord> {
        let (key, record) = (self.key(), self.record());
        self.in_flight().state().shown_record(key, record)
    }
}

fn last_seen(record: Option<Arc<SeenRecord>>) -> LastSeen {
    record.map_or(LastSeen::Unknown, LastSeen::Record)
}

pub(crate) const NOT_IN_TIME: &str = "it was not renewed in time";
