//! A claim as its call and the keeper share it: how long it is good for, and what its end sends.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::Instant;
use tracing::Span;

use crate::error::{Error, Site};
use crate::key::endpoint::Endpoint;
use crate::observe::{self, Event, EventKind};
use crate::policy::times::Times;
use crate::policy::{OnLeaseLost, Policy, Release};
use crate::protocol::in_flight::{Flight, Found};
use crate::protocol::retry::Try;
use crate::protocol::scheduler::{Keeper, Slot};
use crate::protocol::settle;
use crate::protocol::settle::Ending;
use crate::protocol::shared::Shared;
use crate::protocol::token::of_call::CallToken;
use crate::record::call as record;
use crate::record::kept::Kept;
use crate::record::owner::Owner;
use crate::result::end::End;
use crate::result::keep::Keep;
use crate::store::{StoreError, StoreErrorKind, Swap};
use crate::sync::{Mutex, MutexGuard};
use crate::world::{self, naive};

pub(crate) struct Lease {
    pub(crate) shared: Arc<Shared>,
    pub(crate) site: Site,
    pub(crate) flight: Arc<Flight>,
    pub(crate) record: Bytes,
    pub(crate) policy: Policy,
    pub(crate) times: Times,
    pub(crate) token: Option<Arc<CallToken>>,
    pub(crate) span: Span,
    /// When the call was made, if anybody wants to know how long it takes.
    made: Option<Instant>,
    owner: Owner,
    standing: Mutex<Standing>,
}

struct Standing {
    phase: Phase,
    /// The first send of the claim that may have been applied.
    since: Instant,
    good_until: Instant,
    /// A renewal was sent, so the record may stand longer than it was put for.
    renewed: bool,
    /// The last renewal failed.
    failing: bool,
    /// When the record of a call that is over is to end; a renewal that is still on its way moves it.
    hold_until: Option<Instant>,
    waker: Option<Waker>,
    keeper: Option<Arc<Keeper>>,
    slot: Option<Slot>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Settling,
    Lost(&'static str),
    Over,
}

impl Lease {
    pub(crate) fn new(
        shared: Arc<Shared>,
        site: Site,
        flight: Arc<Flight>,
        policy: Policy,
        times: Times,
        token: Option<Arc<CallToken>>,
    ) -> Arc<Self> {
        let span = observe::span(&site);
        let made = shared.observers().timed().then(Instant::now);
        Self::with(shared, site, flight, policy, times, token, span, made)
    }

    /// Of a call that is not guarded: it claims nothing, and no call follows it.
    pub(crate) fn bypassed(shared: Arc<Shared>, endpoint: Endpoint, policy: Policy) -> Arc<Self> {
        let flight = shared.flights().flight(String::new(), None);
        let policy = Policy {
            bypassed: true,
            ..policy
        };
        let site = Site::without_key(endpoint);
        Self::new(shared, site, flight, policy, Times::default(), None)
    }

    #[expect(clippy::too_many_arguments, reason = "each is a field")]
    fn with(
        shared: Arc<Shared>,
        site: Site,
        flight: Arc<Flight>,
        policy: Policy,
        times: Times,
        token: Option<Arc<CallToken>>,
        span: Span,
        made: Option<Instant>,
    ) -> Arc<Self> {
        let owner = Owner::random();
        let (payload, now) = (flight.payload.as_ref(), world::time_of_day());
        let record = if policy.is_done_at_once() {
            record::done(owner, payload, now, times.ttl, &Kept::Nothing)
        } else {
            record::running(owner, payload, now, times.expiry)
        };
        Arc::new(Self {
            shared,
            site,
            span,
            made,
            record,
            flight,
            policy,
            times,
            token,
            owner,
            standing: Mutex::new(Standing {
                phase: Phase::Running,
                since: *NOT_BEGUN,
                good_until: *NOT_BEGUN,
                renewed: false,
                failing: false,
                hold_until: None,
                waker: None,
                keeper: None,
                slot: None,
            }),
        })
    }

    /// The same call with an owner made anew: what a call claims with that was told that its key is taken.
    pub(crate) fn again(&self) -> Arc<Self> {
        Self::with(
            Arc::clone(&self.shared),
            self.site.clone(),
            Arc::clone(&self.flight),
            self.policy,
            self.times,
            self.token.clone(),
            self.span.clone(),
            self.made,
        )
    }

    /// Tells what happened beside the end of the call.
    pub(crate) fn tell<'a>(&'a self, kind: EventKind, more: impl FnOnce(Event<'a>) -> Event<'a>) {
        let event = Event::new(&self.site, kind);
        self.shared.observers().tell(&more(event));
    }

    /// Tells how the call ended.
    pub(crate) fn ended(&self, kind: EventKind) {
        self.ended_by(Event::new(&self.site, kind));
    }

    /// Tells that the call ended with this error.
    pub(crate) fn refused(&self, error: &Error) {
        self.ended_by(Event::refused(error));
    }

    /// Tells that the body has ended.
    pub(crate) fn ended_with(&self, success: bool) {
        self.ended(match success {
            _ if self.policy.bypassed => EventKind::Bypassed,
            true => EventKind::Executed,
            false => EventKind::Failed,
        });
    }

    /// How a body ended, with what is kept of its outcome.
    pub(crate) fn end_of<R, K: Keep<R>>(&self, keep: K, outcome: &R, success: bool) -> End {
        if self.policy.bypassed {
            return success.into();
        }
        keep.end(outcome, success, self.shared.keeping())
    }

    fn ended_by(&self, event: Event<'_>) {
        self.span.record("outcome", event.kind().as_str());
        let took = self.made.map(|made| made.elapsed());
        self.shared.observers().tell(&event.lasted(took));
    }

    pub(crate) fn key(&self) -> &str {
        &self.flight.key
    }

    /// Enters the calls that are under way in this process; if an equal one is, answers with that.
    pub(crate) fn enter(&self) -> Option<Arc<Flight>> {
        self.shared.flights().enter(&self.flight)
    }

    /// The call of this process that has the key by now, if another does.
    pub(crate) fn beside(&self) -> Option<Arc<Flight>> {
        self.shared.flights().beside(&self.flight)
    }

    /// Tells those who follow this call that it is over, and what stands in the store, if that is known.
    pub(crate) fn leave(&self, found: Option<Bytes>) {
        let found = found.map_or(Found::Nothing, Found::Record);
        self.shared.flights().leave(&self.flight, found);
    }

    /// The same, of a call that got no answer of the store.
    pub(crate) fn leave_in_trouble(&self) {
        let flights = self.shared.flights();
        flights.leave(&self.flight, Found::Trouble);
    }

    /// Counts the lease from `since`; returns when it ends.
    pub(crate) fn begin(&self, since: Instant) -> Instant {
        let mut standing = self.standing();
        standing.since = since;
        standing.good_until = since + self.times.lease;
        standing.good_until
    }

    /// Why the body may not be polled any more, if so.
    pub(crate) fn lost(&self) -> Option<&'static str> {
        let standing = self.standing();
        match standing.phase {
            Phase::Lost(why) => Some(why),
            Phase::Running if Instant::now() >= standing.good_until => {
                Some(self.lose(standing, NOT_IN_TIME))
            }
            _ => None,
        }
    }

    /// Has the keeper keep the lease, and wake `waker` if it is lost.
    pub(crate) fn watch(self: &Arc<Self>, waker: &Waker) {
        let mut standing = self.standing();
        match standing.phase {
            Phase::Running => {
                match &mut standing.waker {
                    Some(known) => known.clone_from(waker),
                    none => *none = Some(waker.clone()),
                }
                self.register(&mut standing);
            }
            // The lease was lost between the look at it and here.
            Phase::Lost(_) if self.policy.when_lost() == OnLeaseLost::Stop => waker.wake_by_ref(),
            _ => {}
        }
    }

    /// Has the keeper keep the lease of a call that is over and could not be settled yet.
    pub(crate) fn keep_until_settled(self: &Arc<Self>) {
        let mut standing = self.standing();
        if standing.phase == Phase::Settling {
            self.register(&mut standing);
        }
    }

    fn register(self: &Arc<Self>, standing: &mut Standing) {
        // The runtime of a keeper that is gone has ended, and this call has moved to another.
        if standing.keeper.as_ref().is_none_or(|keeper| keeper.gone()) {
            standing.keeper = Keeper::current();
            let due = standing.since + self.times.first_renewal(self.policy.release);
            self.schedule(standing, due);
        }
    }

    /// The keeper of this lease, or of the runtime that this runs on.
    pub(crate) fn keeper(&self) -> Option<Arc<Keeper>> {
        let keeper = self.standing().keeper.clone();
        keeper
            .filter(|keeper| !keeper.gone())
            .or_else(Keeper::current)
    }

    /// What the keeper does when its time has come: nothing, or the renewal that this returns.
    pub(super) fn due(self: &Arc<Self>) -> Option<impl Future<Output = ()> + Send + use<>> {
        let mut standing = self.standing();
        standing.slot = None;
        let now = Instant::now();
        match standing.phase {
            Phase::Lost(_) | Phase::Over => None,
            Phase::Settling if now >= standing.good_until || standing.hold_until.is_some() => None,
            Phase::Settling if naive!(KeeperStopsAtBodyEnd) => None,
            Phase::Running if now >= standing.good_until => {
                self.lose(standing, NOT_IN_TIME);
                None
            }
            _ if now >= standing.since + self.times.renew_for => {
                let due = standing.good_until;
                self.schedule(&mut standing, due);
                None
            }
            _ => {
                standing.renewed = true;
                Some(Arc::clone(self).renew(standing.good_until))
            }
        }
    }

    async fn renew(self: Arc<Self>, good_until: Instant) {
        let sent = Instant::now();
        // A reply may just be lost: a short lease is to outlive that.
        let left = good_until.duration_since(sent);
        let limit = self.shared.deadline().min(left / 2);
        let store = self.shared.store();
        let renewal = store.replace(self.key(), &self.record, &self.record, self.times.expiry);
        // A store is somebody else's code: its panic must not end the keeper of all other claims.
        let answer = AssertUnwindSafe(Try::new(renewal, limit));
        let answer = answer.catch_unwind().await.unwrap_or_else(|_| {
            let panicked = "the store panicked";
            Err(StoreError::new(StoreErrorKind::Unknown, panicked))
        });
        let mut standing = self.standing();
        let running = match standing.phase {
            Phase::Running => true,
            Phase::Settling if standing.hold_until.is_none() => false,
            // It may have been applied after what the end of the call has sent.
            _ => {
                let hold = standing.hold_until.map(Ending::Hold);
                drop(standing);
                if let (Some(hold), Ok(Swap::Done) | Err(_)) = (hold, answer) {
                    settle::hand_over(self, hold);
                }
                return;
            }
        };
        let failed = match answer {
            Ok(Swap::Done) => {
                standing.failing = false;
                standing.good_until = standing.good_until.max(sent + self.times.lease);
                self.schedule(&mut standing, sent + self.times.renewal());
                return;
            }
            // The record may be gone because the call has just settled it.
            Ok(Swap::Absent | Swap::Other(_)) if !running => return,
            Ok(Swap::Absent) => {
                self.lose(standing, "its record is gone from the store");
                return;
            }
            Ok(Swap::Other(_)) => {
                self.lose(standing, "another record stands under its key");
                return;
            }
            Err(error) => error,
        };
        // Whatever the failure: permissions and passwords, too, may be wrong for a moment only.
        let due = Instant::now() + (self.times.lease / 20).min(LONGEST_PAUSE);
        let first = !std::mem::replace(&mut standing.failing, true);
        self.schedule(&mut standing, due);
        drop(standing);
        if first {
            self.tell(EventKind::RenewalFailed, |event| event.caused_by(&failed));
        }
    }

    /// What a settled call sends, from here on; `None` if nothing.
    pub(crate) fn begin_settling(&self, success: bool, kept: &Kept) -> Option<Ending> {
        let mut standing = self.standing();
        let lost = matches!(standing.phase, Phase::Lost(_));
        if !lost {
            standing.phase = Phase::Settling;
        }
        standing.waker = None;
        drop(standing);
        match self.ending(success, kept) {
            // Its work is done all the same: recording it cannot harm, another's record stays.
            Some(complete @ Ending::Complete(_)) if lost => Some(complete),
            _ if lost => None,
            ending => ending,
        }
    }

    /// The end of a call by the table of `release`. A failure of which something is kept stays as a success does.
    pub(crate) fn ending(&self, success: bool, kept: &Kept) -> Option<Ending> {
        let stays = success || matches!(kept, Kept::Result(_));
        match self.policy.release {
            Release::Always => Some(Ending::Remove),
            Release::OnError if !stays => Some(Ending::Remove),
            Release::OnError => Some(self.complete(self.times.ttl, kept)),
            Release::Never => {
                let taken_until = self.taken_until();
                let left = taken_until.duration_since(Instant::now());
                if Instant::now() >= self.standing().since + self.times.ttl {
                    Some(Ending::Remove)
                } else if stays && self.policy.replay {
                    Some(self.complete(left, kept))
                } else {
                    self.as_long_as_ttl()
                }
            }
        }
    }

    fn complete(&self, lasts: Duration, kept: &Kept) -> Ending {
        Ending::Complete(self.done(lasts, kept))
    }

    /// The record of the call once it is done, which stands for as long as it `lasts`.
    pub(crate) fn done(&self, lasts: Duration, kept: &Kept) -> Bytes {
        let payload = self.flight.payload.as_ref();
        record::done(self.owner, payload, world::time_of_day(), lasts, kept)
    }

    /// How long the record of a call that is done stands from now on.
    pub(crate) fn done_for(&self) -> Duration {
        match self.policy.release {
            Release::Never => {
                let left = self.taken_until().duration_since(Instant::now());
                left.max(SHORTEST)
            }
            _ => self.times.ttl,
        }
    }

    /// When the key is free at the latest, with `release = false`.
    fn taken_until(&self) -> Instant {
        self.standing().since + self.times.expiry
    }

    /// With `release = false`, a renewed claim is taken back to `ttl` after the claim.
    pub(crate) fn as_long_as_ttl(&self) -> Option<Ending> {
        let standing = self.standing();
        let renewed = self.policy.release == Release::Never && standing.renewed;
        let since = standing.since;
        drop(standing);
        renewed.then(|| Ending::Hold(since + self.times.expiry))
    }

    /// Notes when the record of a call that is over is to end.
    pub(crate) fn hold_until(&self, until: Instant) {
        self.standing().hold_until = Some(until);
    }

    /// Ends all renewal. Whether the lease was lost before.
    pub(crate) fn end(&self) -> bool {
        let mut standing = self.standing();
        let lost = matches!(standing.phase, Phase::Lost(_));
        standing.phase = Phase::Over;
        standing.waker = None;
        if let (Some(slot), Some(keeper)) = (standing.slot.take(), &standing.keeper) {
            keeper.forget(slot);
        }
        lost
    }

    pub(crate) fn good_until(&self) -> Instant {
        self.standing().good_until
    }

    fn lose(&self, mut standing: MutexGuard<'_, Standing>, why: &'static str) -> &'static str {
        standing.phase = Phase::Lost(why);
        let waker = standing.waker.take();
        drop(standing);
        self.leave(None);
        self.tell(EventKind::Overrun, |event| event.because(why));
        if let Some(waker) = waker {
            waker.wake();
        }
        why
    }

    fn schedule(self: &Arc<Self>, standing: &mut Standing, due: Instant) {
        let due = due.min(standing.good_until);
        standing.slot = standing
            .keeper
            .as_ref()
            .map(|keeper| keeper.remember(due, Arc::clone(self)));
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NOT_IN_TIME: &str = "it was not renewed in time";

/// An instant in the past, for a lease that has no beginning yet. Looking it up once is cheaper than a clock.
static NOT_BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The shortest time to live that a store takes.
const SHORTEST: Duration = Duration::from_millis(1);

/// The longest pause between two tries to renew one claim.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
