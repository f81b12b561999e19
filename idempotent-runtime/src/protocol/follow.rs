//! Duplicates of a call that this process runs. They follow this call, the leader, and do not ask the store.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{DuplicateState, Error};
use crate::mutation::mutation;
use crate::policy::deadline::first_try;
use crate::protocol::context::CallContext;
use crate::protocol::followers::{Waits, WakesAt};
use crate::protocol::in_flight::{Leader, Ring};
use crate::protocol::lease::Lease;
use crate::protocol::refusal::Refusal;
use crate::protocol::scheduler::Scheduler;
use crate::protocol::seen::SeenRecord;
use crate::protocol::state::{LastSeen, Phase};
use crate::protocol::waiter;
use crate::protocol::waiter::WaitLimits;

/// Follows `leader` until this call may ask the store itself, or is refused because of an answer to the leader.
///
/// If the call waits for the end of its leader, it is polled twice: it takes a place among the followers, and is woken at the
/// end.
pub(crate) struct Following {
    /// `None` after the end.
    lease: Option<Arc<Lease>>,
    progress: Progress,
}

/// How far a call has followed.
struct Progress {
    limits: WaitLimits,
    leader: Arc<dyn Leader>,
    /// Since when the call follows this leader.
    since: Instant,
    /// The place among the followers of the leader.
    place: Option<usize>,
    /// The number of announced phases of the leader when the call last looked at it.
    announced: Option<u32>,
    freshness: Freshness,
}

/// A call that may ask the store itself.
pub(crate) struct MayAsk {
    pub(crate) lease: Arc<Lease>,
    pub(crate) limits: WaitLimits,
    /// The record that was in the store a moment ago, if it is known.
    pub(crate) record: Option<Arc<SeenRecord>>,
}

impl Following {
    pub(crate) fn new(lease: Arc<Lease>, leader: Arc<dyn Leader>) -> Self {
        let now = Instant::now();
        Self {
            progress: Progress {
                limits: WaitLimits::new(lease.call(), now),
                leader,
                since: now,
                place: None,
                announced: None,
                freshness: Freshness::default(),
            },
            lease: Some(lease),
        }
    }
}

impl Progress {
    /// Follows until the call must wait. Ready if it may ask the store, with the record that is known, or if it is refused.
    fn advance(
        &mut self,
        lease: &Arc<Lease>,
        cx: &Context<'_>,
    ) -> Poll<Result<Option<Arc<SeenRecord>>, Refusal>> {
        let call = lease.call();
        loop {
            let step = self.look(lease, cx);
            let replaces_leader = matches!(step, FollowStep::ReplaceLeader);
            let record = match step {
                FollowStep::Wait(_) => return Poll::Pending,
                FollowStep::Refuse(refusal) => return Poll::Ready(Err(refusal)),
                FollowStep::RefuseBehindHolder => {
                    let record = self.leader.shown_record();
                    return Poll::Ready(Err(Refusal::from_record(lease, &record, true)));
                }
                FollowStep::StopFollowing => return Poll::Ready(Ok(None)),
                FollowStep::ReplaceLeader => None,
                FollowStep::End(LastSeen::Unavailable) if waiter::refuses_without_store(call) => {
                    return Poll::Ready(Err(waiter::unanswered(call)));
                }
                FollowStep::End(LastSeen::Unknown | LastSeen::Unavailable | LastSeen::Replaced) => {
                    None
                }
                FollowStep::End(LastSeen::Record(record)) => {
                    let refusal = Refusal::from_record(lease, &record, false);
                    let is_fresh = self.freshness.is_fresh();
                    if is_fresh && self.limits.waits_until(call, &refusal).is_some() {
                        Some(record)
                    } else if is_fresh || is_final(&refusal) {
                        return Poll::Ready(Err(refusal));
                    } else {
                        None
                    }
                }
            };
            let may_replace = |other: &_| replaces_leader && Arc::ptr_eq(other, &self.leader);
            match lease.enter_or_replace(may_replace) {
                // A call that has ended for its followers may be in the table again for a moment, see `unrecorded::enter`.
                Some(next) if !Arc::ptr_eq(&next, &self.leader) => self.follow_next(next),
                _ => return Poll::Ready(Ok(record)),
            }
        }
    }

    fn follow_next(&mut self, next: Arc<dyn Leader>) {
        self.leave_place();
        self.leader = next;
        self.since = Instant::now();
        self.announced = None;
        // The next leader sends its claim after this call was made.
        self.freshness = Freshness(1);
    }

    /// Reads the state of the leader. If the call must wait, it takes a place among the followers in the same critical section,
    /// so that it misses no phase.
    fn look(&mut self, lease: &Arc<Lease>, cx: &Context<'_>) -> FollowStep {
        let in_flight = self.leader.in_flight();
        let mut state = in_flight.state();
        let announced = state.announced_to_follower();
        let before = self.announced.replace(announced);
        self.freshness.0 += before.map_or(0, |before| announced.wrapping_sub(before));
        self.place = self.place.filter(|_| state.keeps_places_since(before));
        let phase = match state.shown_phase() {
            Ok(phase) => phase,
            Err(last_seen) => {
                // The leader has no followers any more.
                self.place = None;
                return FollowStep::End(last_seen.clone());
            }
        };
        let now = before.map_or(self.since, |_| Instant::now());
        let differs = differs(lease.call(), &*self.leader);
        let waits_for_end = self.limits.wait_until.is_some_and(|until| until > now) && !differs;
        let is_asking = matches!(phase, Phase::Asking(_) | Phase::Withdrawing(_));
        let is_waiting = matches!(phase, Phase::Waiting(_));
        let mut until = match self.step(lease, phase, state.busy_until(), differs, now) {
            FollowStep::Wait(until) => until,
            step => return step,
        };
        if is_asking && mutation!(FrozenLeaderFollowed) {
            until = now + Duration::from_hours(1);
        }
        // Outside of a runtime there are no timers.
        let Some(scheduler) = Scheduler::current().filter(|_| until > now) else {
            return FollowStep::StopFollowing;
        };
        if !is_asking {
            self.limits.waiting_since.get_or_insert(now);
        }
        // With an observer, the event `Waited` counts from the instant at which the leader got its key.
        let waits_for_end = waits_for_end && !(is_asking && lease.call().made_at.is_some());
        let wakes_at = match waits_for_end {
            // The leader may never be polled again after its next phase. The timer of that phase ends the waiting for it.
            _ if is_waiting => WakesAt::Asking,
            true => WakesAt::End,
            false => WakesAt::Running,
        };
        let waits = Waits {
            waker: cx.waker(),
            until,
            wakes_at,
        };
        let (place, earlier) = state.followers().wait(self.place, &waits, &scheduler, || {
            Ring::new(&self.leader, &scheduler)
        });
        self.place = Some(place);
        drop(state);
        // Outside of the lock, because dropping a waker may drop a task that follows the same leader.
        drop(earlier);
        FollowStep::Wait(until)
    }

    /// The next step of the call, in this phase of its leader, which has its key until `good_until` at least.
    fn step(
        &self,
        lease: &Arc<Lease>,
        phase: &Phase,
        good_until: Instant,
        differs: bool,
        now: Instant,
    ) -> FollowStep {
        match phase {
            Phase::Asking(answer_due) => {
                let limit = lease.call().shared.deadline();
                let due = answer_due.unwrap_or(self.since + first_try(limit));
                // A leader without a new phase by this instant is no longer polled.
                self.behind_asking(lease.call(), due + limit / 20, now)
            }
            // Outside of a runtime the next leader would have no timers.
            Phase::Withdrawing(due) if *due <= now && Scheduler::current().is_some() => {
                FollowStep::ReplaceLeader
            }
            Phase::Withdrawing(due) => self.behind_asking(lease.call(), *due, now),
            Phase::Waiting(record) => self.behind_waiting(lease, record, now),
            // The leader knows the outcome, also after its claim has expired.
            Phase::Unrecorded(outcome) if outcome.is_alive(now) => {
                let refusal = Refusal::from_record(lease, outcome, false);
                match self.limits.waits_until(lease.call(), &refusal) {
                    Some(until) => FollowStep::Wait(outcome.lives_until(until)),
                    None => FollowStep::Refuse(refusal),
                }
            }
            Phase::Unrecorded(_) => FollowStep::StopFollowing,
            // The leader is no longer polled. Its record has expired, or expires soon.
            _ if good_until <= now => FollowStep::StopFollowing,
            // The leader has the key.
            phase => match self.limits.wait_behind(lease.call(), phase, now) {
                Some(until) if !differs => FollowStep::Wait(until.min(good_until)),
                _ => FollowStep::RefuseBehindHolder,
            },
        }
    }

    /// The step behind a leader that gets the store's answer by `due`, or asks again.
    fn behind_asking(&self, call: &CallContext, due: Instant, now: Instant) -> FollowStep {
        // A call whose wait is over follows on while the leader asks. If each of many such calls asked a silent store itself, the store would
        // get all their claims and withdrawals, one after another.
        let waits = self.limits.wait_until.filter(|until| *until > now);
        let until = waits.unwrap_or_else(|| self.limits.gives_up_at(call));
        if until <= now && due > now && waiter::refuses_without_store(call) {
            return FollowStep::Refuse(waiter::unanswered(call));
        }
        FollowStep::Wait(due.min(until))
    }

    /// The step behind a leader that waits for a call of another process with this record.
    fn behind_waiting(
        &self,
        lease: &Arc<Lease>,
        record: &Arc<SeenRecord>,
        now: Instant,
    ) -> FollowStep {
        let refusal = Refusal::from_record(lease, record, false);
        let is_fresh = self.freshness.is_fresh();
        if matches!(refusal.plain_error(), Some(Error::PayloadMismatch(_))) {
            return if is_fresh || is_final(&refusal) {
                FollowStep::Refuse(refusal)
            } else {
                FollowStep::StopFollowing
            };
        }
        match self.limits.wait_until.filter(|until| *until > now) {
            Some(until) => FollowStep::Wait(until),
            None if is_fresh => FollowStep::Refuse(refusal),
            None => FollowStep::StopFollowing,
        }
    }

    fn leave_place(&mut self) {
        if let Some(place) = self.place.take() {
            let mut state = self.leader.in_flight().state();
            let waker = state
                .keeps_places_since(self.announced)
                .then(|| state.followers().leave(place));
            drop(state);
            drop(waker);
        }
    }
}

impl Future for Following {
    type Output = Result<MayAsk, Refusal>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(lease) = &this.lease else {
            return Poll::Pending;
        };
        let Poll::Ready(end) = this.progress.advance(lease, cx) else {
            return Poll::Pending;
        };
        this.progress.leave_place();
        let limits = this.progress.limits;
        match end {
            Ok(record) => match this.lease.take() {
                Some(lease) => Poll::Ready(Ok(MayAsk {
                    lease,
                    limits,
                    record,
                })),
                // Cannot happen: the lease was there above.
                None => Poll::Pending,
            },
            Err(refusal) => {
                limits.emit_end(lease.call(), Some(&refusal));
                this.lease = None;
                Poll::Ready(Err(refusal))
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.progress.leave_place();
            lease.call().emit_dropped_claim();
        }
    }
}

/// The next step of a follower.
enum FollowStep {
    /// Waits for the next phase, at most until this instant.
    Wait(Instant),
    /// The leader has ended.
    End(LastSeen),
    /// The leader can give no more information, so the call asks the store itself.
    StopFollowing,
    /// The claim of the leader was not withdrawn in time. The call replaces the leader in the table and asks the store; the other duplicates
    /// follow this call.
    ReplaceLeader,
    /// Is refused because of the leader's record.
    RefuseBehindHolder,
    /// Is refused.
    Refuse(Refusal),
}

/// Counts the phases that the leader has announced since this call began.
///
/// The first phase may report a claim that was sent *before* this call existed, so it must not refuse this call. From the
/// second phase on, the information is younger than the call.
#[derive(Default)]
struct Freshness(u32);

impl Freshness {
    /// Whether the last phase is no older than this call.
    fn is_fresh(&self) -> bool {
        self.0 > 1 || mutation!(OldAnswerBelieved)
    }
}

/// Whether both calls have the same keys and a payload, and the payloads differ.
fn differs(call: &CallContext, leader: &dyn Leader) -> bool {
    let payload = call.payload.as_ref();
    call.keys == leader.keys()
        && payload.is_some_and(|one| leader.payload().is_some_and(|other| one != other))
}

/// Whether an answer of the store that is older than the call still refuses the call.
fn is_final(refusal: &Refusal) -> bool {
    let Some(error) = refusal.plain_error() else {
        return true;
    };
    // The end of a call that does other work says only that the key was taken.
    let ended = [DuplicateState::Done, DuplicateState::Failed];
    let duplicate = error.duplicate();
    duplicate.is_none_or(|duplicate| duplicate.is_equal() && ended.contains(&duplicate.state()))
}
