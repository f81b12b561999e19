//! A claim as its call and its renewals share it: its record, how long it is good for, and what its end sends.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::observe::EventKind;
use crate::policy::deadline::first_try;
use crate::policy::{OnLeaseLost, Release};
use crate::protocol::context::CallContext;
use crate::protocol::ending::Ending;
use crate::protocol::in_flight::{Flight, Keyed};
use crate::protocol::scheduler::{Keeper, Scheduled};
use crate::protocol::state::{Found, Phase, State};
use crate::record::kept::Kept;
use crate::record::owner::Owner;
use crate::sync::MutexGuard;

/// One claim of one call.
pub(crate) struct Lease {
    pub(crate) call: Arc<CallContext>,
    pub(crate) flight: Arc<Flight>,
    pub(crate) record: Bytes,
    owner: Owner,
}

/// What the end of a claim depends on, beside the policy.
#[derive(Clone, Copy)]
struct Term {
    since: Instant,
    renewed: bool,
}

impl Lease {
    pub(crate) fn new(call: CallContext) -> Arc<Self> {
        let call = Arc::new(call);
        let keyed: Arc<dyn Keyed> = call.clone();
        let flight = call.shared.flights().flight(keyed);
        Self::of(call, flight)
    }

    /// The same call with an owner made anew: what a call claims with that was told that its key is taken.
    ///
    /// All claims of a call share one state. So the earlier claim is handed on before a later one may begin its lease.
    pub(crate) fn again(&self) -> Arc<Self> {
        Self::of(Arc::clone(&self.call), Arc::clone(&self.flight))
    }

    fn of(call: Arc<CallContext>, flight: Arc<Flight>) -> Arc<Self> {
        let owner = Owner::random();
        Arc::new(Self {
            record: call.claim_record(owner),
            call,
            flight,
            owner,
        })
    }

    pub(crate) fn key(&self) -> &str {
        &self.call.key
    }

    /// Enters the calls that are under way in this process; if an equal one is, answers with that.
    pub(crate) fn enter(&self) -> Option<Arc<Flight>> {
        self.call.shared.flights().enter(&self.flight)
    }

    /// The call of this process that has the key by now, if another does.
    pub(crate) fn beside(&self) -> Option<Arc<Flight>> {
        self.call.shared.flights().beside(&self.flight)
    }

    /// Tells those who follow this call that it is over for them, and what is in the store, if that is known.
    pub(crate) fn leave(&self, found: Option<Bytes>) {
        let found = found.map_or(Found::Nothing, Found::Record);
        self.call.shared.flights().leave(&self.flight, found);
    }

    /// The same, of a call that got no answer of the store.
    pub(crate) fn leave_in_trouble(&self) {
        let flights = self.call.shared.flights();
        flights.leave(&self.flight, Found::Trouble);
    }

    /// The same, of a call for which nothing is sent any more: all renewal ends.
    pub(crate) fn finish(&self, found: Option<Bytes>) {
        let found = found.map_or(Found::Nothing, Found::Record);
        self.call.shared.flights().finish(&self.flight, found);
    }

    /// The same, of a call whose end sends nothing. With `release = false` a renewal may have been sent since that was decided:
    /// its answer finds here when the record is to end.
    pub(crate) fn finish_as_put(&self) {
        if self.call.policy.release == Release::Never {
            let mut state = self.flight.state();
            state.hold_until = Some(state.since + self.call.times.expiry);
        }
        self.finish(None);
    }

    /// Counts the lease of a claim that may have been put from `since`.
    pub(crate) fn begin(&self, since: Instant) {
        self.begin_in(&mut self.flight.state(), since);
    }

    /// Counts the lease from `since`. If that leaves time for a body, the key is the call's. An answer that was there `at_once`
    /// needs no look at the clock.
    pub(crate) fn start(&self, since: Instant, at_once: bool) -> bool {
        let mut state = self.flight.state();
        self.begin_in(&mut state, since);
        if !at_once && Instant::now() >= state.good_until {
            return false;
        }
        state.record.clone_from(&self.record);
        let phase = match self.call.token {
            None => Phase::Running,
            // It may still be refused, so those who follow are not told yet that it runs.
            Some(_) => Phase::Asking(Some(
                Instant::now() + first_try(self.call.shared.deadline()),
            )),
        };
        self.flight.reach_from(state, phase);
        true
    }

    fn begin_in(&self, state: &mut State, since: Instant) {
        state.since = since;
        state.good_until = since + self.call.times.lease;
    }

    /// Ends the lease if its time is over. Why the body may not be polled any more, if so.
    pub(crate) fn check_expiry(&self) -> Option<&'static str> {
        let state = self.flight.state();
        match state.phase {
            Phase::Lost(why) => Some(why),
            Phase::Running if Instant::now() >= state.good_until => {
                Some(self.lose(state, NOT_IN_TIME))
            }
            _ => None,
        }
    }

    /// Notes that the lease is lost, and wakes the task that polls the body.
    pub(crate) fn lose(&self, mut state: MutexGuard<'_, State>, why: &'static str) -> &'static str {
        state.phase = Phase::Lost(why);
        let waker = state.waker.take();
        drop(state);
        self.leave(None);
        self.call
            .tell(EventKind::Overrun, |event| event.because(why));
        if let Some(waker) = waker {
            waker.wake();
        }
        why
    }

    /// The keeper of this lease, or of the runtime that this runs on.
    pub(crate) fn keeper(&self) -> Option<Arc<Keeper>> {
        let keeper = self.flight.state().keeper.clone();
        keeper
            .filter(|keeper| !keeper.gone())
            .or_else(Keeper::current)
    }

    /// What a settled call sends, from here on; `None` if nothing.
    pub(crate) fn begin_settling(&self, success: bool, kept: &Kept) -> Option<Ending> {
        let mut state = self.flight.state();
        let lost = matches!(state.phase, Phase::Lost(_));
        if !lost {
            state.phase = Phase::Settling;
        }
        state.waker = None;
        let term = Term::of(&state);
        drop(state);
        match self.ending_by(term, success, kept) {
            // Its work is done all the same: recording it cannot harm, another's record stays.
            Some(complete @ Ending::Complete(_)) if lost => Some(complete),
            _ if lost => None,
            ending => ending,
        }
    }

    /// Notes that the body was dropped, which ends all renewal. Whether the lease was lost before.
    pub(crate) fn drop_body(&self) -> bool {
        let mut state = self.flight.state();
        let lost = matches!(state.phase, Phase::Lost(_));
        state.phase = Phase::Dropped;
        state.renew_no_more();
        lost
    }

    /// The end of a call by the table of `release`. A failure of which something is kept stays as a success does.
    pub(crate) fn ending(&self, success: bool, kept: &Kept) -> Option<Ending> {
        let term = Term::of(&self.flight.state());
        self.ending_by(term, success, kept)
    }

    fn ending_by(&self, term: Term, success: bool, kept: &Kept) -> Option<Ending> {
        let stays = success || matches!(kept, Kept::Result(_));
        let times = &self.call.times;
        match self.call.policy.release {
            Release::Always => Some(Ending::Remove),
            Release::OnError if !stays => Some(Ending::Remove),
            Release::OnError => Some(self.complete(times.ttl, kept)),
            Release::Never => {
                let now = Instant::now();
                if now >= term.since + times.ttl {
                    Some(Ending::Remove)
                } else if stays && self.call.policy.replay {
                    let left = (term.since + times.expiry).duration_since(now);
                    Some(self.complete(left, kept))
                } else {
                    self.as_long_as_ttl_by(term)
                }
            }
        }
    }

    fn complete(&self, lasts: Duration, kept: &Kept) -> Ending {
        Ending::Complete(self.call.done_record(self.owner, lasts, kept))
    }

    /// With `release = false`, a renewed claim is taken back to `ttl` after the claim.
    pub(crate) fn as_long_as_ttl(&self) -> Option<Ending> {
        self.as_long_as_ttl_by(Term::of(&self.flight.state()))
    }

    fn as_long_as_ttl_by(&self, term: Term) -> Option<Ending> {
        let renewed = self.call.policy.release == Release::Never && term.renewed;
        renewed.then(|| Ending::Hold(term.since + self.call.times.expiry))
    }

    /// How long the record of a call that is done lasts from now on.
    pub(crate) fn done_for(&self) -> Duration {
        match self.call.policy.release {
            Release::Never => {
                let taken_until = self.flight.state().since + self.call.times.expiry;
                taken_until.duration_since(Instant::now()).max(SHORTEST)
            }
            _ => self.call.times.ttl,
        }
    }

    /// Notes when the record of a call that is over is to end.
    pub(crate) fn hold_until(&self, until: Instant) {
        self.flight.state().hold_until = Some(until);
    }

    pub(crate) fn good_until(&self) -> Instant {
        self.flight.state().good_until
    }
}

impl Lease {
    /// Has the keeper keep the lease, and wake `waker` if it is lost.
    pub(crate) fn watch(self: &Arc<Self>, waker: &Waker) {
        let mut state = self.flight.state();
        match state.phase {
            Phase::Running => {
                match &mut state.waker {
                    Some(known) => known.clone_from(waker),
                    none => *none = Some(waker.clone()),
                }
                self.register(&mut state);
            }
            // The lease was lost between the look at it and here.
            Phase::Lost(_) if self.call.policy.when_lost() == OnLeaseLost::Stop => {
                waker.wake_by_ref();
            }
            _ => {}
        }
    }

    /// Has the keeper keep the lease of a call that is over and could not be settled yet.
    pub(crate) fn keep_until_settled(self: &Arc<Self>) {
        let mut state = self.flight.state();
        if matches!(state.phase, Phase::Settling) {
            self.register(&mut state);
        }
    }

    fn register(self: &Arc<Self>, state: &mut State) {
        // The runtime of a keeper that is gone has ended, and this call has moved to another.
        if state.keeper.as_ref().is_none_or(|keeper| keeper.gone()) {
            state.keeper = Keeper::current();
            let times = &self.call.times;
            let due = state.since + times.first_renewal(self.call.policy.release);
            self.schedule(state, due);
        }
    }

    /// Has the keeper look after the lease at `due`.
    pub(crate) fn schedule(self: &Arc<Self>, state: &mut State, due: Instant) {
        let due = due.min(state.good_until);
        let lease = || -> Arc<dyn Scheduled> { self.clone() };
        state.slot = state
            .keeper
            .as_ref()
            .map(|keeper| keeper.remember(due, lease()));
    }
}

impl Term {
    fn of(state: &State) -> Self {
        Self {
            since: state.since,
            renewed: state.renewed,
        }
    }
}

pub(crate) const NOT_IN_TIME: &str = "it was not renewed in time";

/// The shortest time to live that a store takes.
const SHORTEST: Duration = Duration::from_millis(1);
