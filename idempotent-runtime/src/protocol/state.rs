//! The state of one call, for the call itself, its renewals and its duplicates in this process.

use std::sync::{Arc, LazyLock};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::protocol::followers::{Followers, WakesAt, Woken};
use crate::protocol::scheduler::{Scheduled, Scheduler, TimerId};
use crate::protocol::seen::SeenRecord;
use crate::store::Key;

/// The changing state of a call. The page of [`protocol`](crate::protocol) draws its phases.
pub(crate) struct State {
    phase: Phase,
    /// The view of duplicates in this process, after they have stopped following the call. A call that has lost its lease, or was replaced, may
    /// get duplicates again.
    final_view: Option<LastSeen>,
    /// A duplicate has looked at the call.
    is_followed: bool,
    /// The duplicates that wait for the next phase.
    followers: Option<Box<Followers>>,
    /// How many phases were announced to duplicates.
    announced: u32,
    /// The record of the claim that has the key, if a duplicate needs it or it is not the first claim of the call.
    shown_record: Option<Arc<SeenRecord>>,
    /// When the first send of the claim that may have reached the store was issued.
    since: Instant,
    /// When the lease expires.
    good_until: Instant,
    /// Until when the call tries to store its outcome while its caller waits, after the first failure.
    settles_until: Option<Instant>,
    /// A renewal was sent, so the record may be stored longer than its claim asked for.
    was_renewed: bool,
    /// The last renewal failed.
    is_failing: bool,
    /// When the record of a call that has ended must expire. A late renewal would extend the record, so the expiry is then set
    /// again.
    hold_until: Option<Instant>,
    /// Whether the body has returned with a success, or with a failure; `None` if it has not returned. Only for calls with a fence.
    body_end: Option<BodyEnd>,
    /// Wakes the task that polls the body.
    body: Option<Waker>,
    scheduler: Option<Arc<Scheduler>>,
    /// The timer of the next renewal.
    timer: Option<TimerId>,
}

/// The phase of a call.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// The store has not answered yet. If the call is still polled, it gets the answer by this instant, or asks again.
    Asking(Option<Instant>),
    /// The call was dropped or refused before it had the key, and its claim is withdrawn. If this takes longer than until this instant, a
    /// duplicate replaces the call.
    Withdrawing(Instant),
    /// The call waits for the end of another process's call with this record.
    Waiting(Arc<SeenRecord>),
    /// The call has the key, and its body may run.
    Running,
    /// The body has returned. The lease is renewed until the end of the call is in the store.
    Settling,
    /// The same as `Settling`, after the store has not taken the outcome in time. Duplicates get this record, which the store may not have.
    Unrecorded(Arc<SeenRecord>),
    /// The body was dropped. The lease is no longer renewed, and the removal of the record, if any, is in flight.
    Dropped,
    /// The lease was lost while the body ran, for this reason.
    Lost(&'static str),
    /// The call has ended, and sends nothing more.
    Ended(LastSeen),
}

impl Phase {
    /// Whether the call has got its key and its token, and has not ended.
    pub(crate) fn has_key(&self) -> bool {
        match self {
            Self::Asking(_) | Self::Withdrawing(_) | Self::Waiting(_) | Self::Ended(_) => false,
            Self::Running
            | Self::Settling
            | Self::Unrecorded(_)
            | Self::Dropped
            | Self::Lost(_) => true,
        }
    }
}

/// The last answer of the store to a call that has ended.
#[derive(Debug, Clone)]
pub(crate) enum LastSeen {
    /// Nothing.
    Unknown,
    /// This record is stored under the key.
    Record(Arc<SeenRecord>),
    /// The store does not answer.
    Unavailable,
    /// An equal call has replaced the call in the table.
    Replaced,
}

/// What a duplicate sees of a call.
pub(crate) struct Snapshot {
    pub(crate) phase: Phase,
    /// When the lease expires.
    pub(crate) good_until: Instant,
}

/// How a body returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// Also a failure with a stored result.
    Success,
    Failure,
}

/// When a claim was sent, and whether it was renewed.
#[derive(Clone, Copy)]
pub(crate) struct Term {
    pub(crate) since: Instant,
    pub(crate) was_renewed: bool,
}

impl State {
    /// A call that has not asked the store.
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Asking(None),
            final_view: None,
            is_followed: false,
            followers: None,
            announced: 0,
            shown_record: None,
            since: *NOT_STARTED,
            good_until: *NOT_STARTED,
            settles_until: None,
            was_renewed: false,
            is_failing: false,
            hold_until: None,
            body_end: None,
            body: None,
            scheduler: None,
            timer: None,
        }
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Replaces the phase, and returns the earlier one.
    pub(crate) fn set_phase(&mut self, phase: Phase) -> Phase {
        std::mem::replace(&mut self.phase, phase)
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.phase, Phase::Lost(_))
    }

    /// Whether the body has returned, and the end of the call is not in the store.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.phase, Phase::Settling | Phase::Unrecorded(_))
    }

    /// The view of a duplicate.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            phase: match &self.final_view {
                Some(seen) => Phase::Ended(seen.clone()),
                None => self.phase.clone(),
            },
            good_until: self.good_until,
        }
    }

    /// The phase that duplicates see, or the last answer of the store if the call has ended for them.
    pub(crate) fn shown_phase(&self) -> Result<&Phase, &LastSeen> {
        match (&self.final_view, &self.phase) {
            (Some(seen), _) | (None, Phase::Ended(seen)) => Err(seen),
            (None, phase) => Ok(phase),
        }
    }

    /// The number of phases that were announced before a duplicate looked at the call.
    pub(crate) fn announced_to_follower(&mut self) -> u32 {
        self.is_followed = true;
        self.announced
    }

    /// Whether a duplicate has looked at the call.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed
    }

    pub(crate) fn followers(&mut self) -> &mut Followers {
        self.followers.get_or_insert_default()
    }

    /// Announces the phase to the duplicates. Returns the duplicates to wake. The caller wakes them after it has released the
    /// lock.
    ///
    /// Most duplicates that wait for the end of the call sleep on when it gets the key. When the call asks again, only those are woken that
    /// know of the call of another process: the others have a timer for the instant at which the answer was due.
    pub(crate) fn announce_phase(&mut self) -> Option<Woken> {
        if self.final_view.is_some() {
            return None;
        }
        self.announced += 1;
        if !self.is_followed {
            return None;
        }
        match &self.phase {
            Phase::Asking(_) => self.take_those_at(WakesAt::Asking),
            Phase::Running => self.take_those_at(WakesAt::Running),
            Phase::Ended(_) => self.followers.take().map(|followers| followers.end()),
            _ => self
                .followers
                .as_mut()
                .map(|followers| followers.take_all()),
        }
    }

    fn take_those_at(&mut self, phase: WakesAt) -> Option<Woken> {
        let followers = self.followers.as_mut();
        followers.map(|followers| followers.take_those_at(phase))
    }

    /// Ends the call for its duplicates: from now on they see `seen`. Only the first view counts. Returns the duplicates to wake.
    pub(crate) fn dismiss_followers(&mut self, seen: LastSeen) -> Option<Woken> {
        // A call that waits for another process has announced this record already.
        let is_known = matches!(
            (&self.phase, &seen),
            (Phase::Waiting(_), LastSeen::Record(_))
        );
        self.announced += u32::from(!is_known);
        self.final_view.get_or_insert(seen);
        self.followers.take().map(|followers| followers.end())
    }

    /// Whether an operator has freed the key through this handle, after the store has not taken the outcome in time.
    pub(crate) fn is_freed(&self) -> bool {
        matches!(self.phase, Phase::Unrecorded(_)) && self.final_view.is_some()
    }

    /// Shows the phases again, before the call enters the table again: its duplicates were dismissed because it had lost its lease, or because
    /// an equal call had replaced it.
    pub(crate) fn take_back_duplicates(&mut self) {
        let was_replaced = matches!(self.final_view, Some(LastSeen::Replaced));
        if (self.is_lost() || was_replaced) && self.final_view.take().is_some() {
            self.followers = Some(Box::new(Followers::since(self.announced)));
        }
    }

    /// Whether a follower that has last looked after so many announced phases still has its place.
    pub(crate) fn keeps_places_since(&self, announced: Option<u32>) -> bool {
        let followers = self.followers.as_ref().zip(announced);
        followers.is_none_or(|(followers, announced)| followers.has_place_since(announced))
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn good_until(&self) -> Instant {
        self.good_until
    }

    /// Until when duplicates believe that the call is polled, and has its key.
    pub(crate) fn busy_until(&self) -> Instant {
        let settles_until = self.settles_until;
        settles_until.map_or(self.good_until, |until| until.max(self.good_until))
    }

    /// Notes until when the call tries to store its outcome.
    pub(crate) fn note_settling(&mut self, until: Instant) {
        self.settles_until = Some(until);
    }

    pub(crate) fn term(&self) -> Term {
        Term {
            since: self.since,
            was_renewed: self.was_renewed,
        }
    }

    /// Notes that the lease lasts for `lease_time` from `since`.
    pub(crate) fn start_lease(&mut self, since: Instant, lease_time: Duration) {
        self.since = since;
        self.good_until = since + lease_time;
    }

    /// Stores the record of a later claim that has the key.
    pub(crate) fn set_shown_record(&mut self, key: &Key, record: &Bytes) {
        self.shown_record = Some(Arc::new(SeenRecord::new(key, record.clone())));
    }

    /// The record of the claim that has the key, which is `first` unless a later claim has it.
    pub(crate) fn shown_record(&mut self, key: &Key, first: &Bytes) -> Arc<SeenRecord> {
        let shown = || Arc::new(SeenRecord::new(key, first.clone()));
        Arc::clone(self.shown_record.get_or_insert_with(shown))
    }

    /// When the record of the ended call must expire, if this is decided.
    pub(crate) fn hold_until(&self) -> Option<Instant> {
        self.hold_until
    }

    pub(crate) fn set_hold_until(&mut self, until: Instant) {
        self.hold_until = Some(until);
    }

    pub(crate) fn body_end(&self) -> Option<BodyEnd> {
        self.body_end
    }

    pub(crate) fn set_body_end(&mut self, end: BodyEnd) {
        self.body_end = Some(end);
    }

    /// Notes that a renewal is being sent.
    pub(crate) fn note_renewal(&mut self) {
        self.was_renewed = true;
    }

    /// Notes that the lease is renewed until this instant.
    pub(crate) fn extend_lease(&mut self, until: Instant) {
        self.is_failing = false;
        self.good_until = self.good_until.max(until);
    }

    /// Notes that a renewal failed. Returns whether the previous renewal succeeded.
    pub(crate) fn note_failed_renewal(&mut self) -> bool {
        !std::mem::replace(&mut self.is_failing, true)
    }

    /// Registers `body` to be woken if the lease is lost.
    pub(crate) fn set_body(&mut self, body: &Waker) {
        match &mut self.body {
            Some(known) => known.clone_from(body),
            none => *none = Some(body.clone()),
        }
    }

    pub(crate) fn take_body(&mut self) -> Option<Waker> {
        self.body.take()
    }

    /// The scheduler that renews the lease, if it is not shut down.
    pub(crate) fn scheduler(&self) -> Option<&Arc<Scheduler>> {
        let scheduler = self.scheduler.as_ref();
        scheduler.filter(|scheduler| !scheduler.is_shut_down())
    }

    pub(crate) fn set_scheduler(&mut self, scheduler: Option<Arc<Scheduler>>) {
        self.scheduler = scheduler;
    }

    /// Sets the timer of the next renewal.
    pub(crate) fn set_timer(&mut self, due: Instant, lease: impl FnOnce() -> Arc<dyn Scheduled>) {
        let due = due.min(self.good_until);
        let scheduler = self.scheduler.as_ref();
        self.timer = scheduler.map(|scheduler| scheduler.schedule(due, lease()));
    }

    /// Notes that the timer has fired.
    pub(crate) fn clear_timer(&mut self) {
        self.timer = None;
    }

    /// Stops all renewal.
    pub(crate) fn stop_renewal(&mut self) {
        self.body = None;
        if let (Some(timer), Some(scheduler)) = (self.timer.take(), &self.scheduler) {
            scheduler.cancel(timer);
        }
    }
}

/// The instant of a lease that has not started. A static is cheaper than the clock.
static NOT_STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
