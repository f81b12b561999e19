//! Renewal of a lease: when it is sent, and the meaning of the store's answers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;

use crate::mutation::mutation;
use crate::observe::EventKind;
use crate::policy::OnLeaseLost;
use crate::protocol::ending::Ending;
use crate::protocol::lease::{Lease, NOT_IN_TIME};
use crate::protocol::retry::StoreAttempt;
use crate::protocol::scheduler::{Scheduled, Scheduler, Work};
use crate::protocol::settle;
use crate::protocol::state::{Phase, State};
use crate::store::{StoreError, StoreErrorKind, Swap};

impl Lease {
    /// Starts the renewals of a running call. If the lease is lost, `body` is woken.
    pub(crate) fn watch(self: &Arc<Self>, body: &Waker) {
        let mut state = self.in_flight().state();
        match state.phase() {
            Phase::Running => {
                state.set_body(body);
                self.start_renewal(&mut state);
            }
            // The lease was lost after the body was polled.
            Phase::Lost(_) if self.call().policy.when_lost() == OnLeaseLost::Stop => {
                body.wake_by_ref();
            }
            _ => {}
        }
    }

    /// Renews the lease of a call whose end is not stored yet.
    pub(crate) fn renew_until_settled(self: &Arc<Self>) {
        let mut state = self.in_flight().state();
        if state.is_settling() {
            self.start_renewal(&mut state);
        }
    }

    fn start_renewal(self: &Arc<Self>, state: &mut State) {
        // If the runtime of the scheduler has ended, the call has moved to another runtime.
        if state.scheduler().is_none() {
            state.set_scheduler(Scheduler::current());
            let times = &self.call().times;
            let due = state.since() + times.first_renewal(self.call().policy.release);
            self.schedule(state, due);
        }
    }

    /// Schedules the next renewal for `due`, or for the end of the lease if the lease ends sooner.
    pub(crate) fn schedule(self: &Arc<Self>, state: &mut State, due: Instant) {
        state.set_timer(due, || -> Arc<dyn Scheduled> { self.clone() });
    }
}

impl Scheduled for Lease {
    fn due_work(self: Arc<Self>) -> Option<Work> {
        let mut state = self.in_flight().state();
        state.clear_timer();
        let (now, good_until) = (Instant::now(), state.good_until());
        match state.phase() {
            Phase::Running if now >= good_until => {
                self.lose(state, NOT_IN_TIME);
                return None;
            }
            Phase::Running => {}
            _ if !state.is_settling() || now >= good_until => return None,
            _ if state.hold_until().is_some() || mutation!(RenewalStopsAtBodyEnd) => return None,
            _ => {}
        }
        if now >= state.since() + self.call().times.renew_for {
            self.schedule(&mut state, good_until);
            return None;
        }
        state.note_renewal();
        drop(state);
        Some(Box::pin(renew(self, good_until)))
    }
}

async fn renew(lease: Arc<Lease>, good_until: Instant) {
    let sent = Instant::now();
    let answer = send(&lease, good_until.duration_since(sent)).await;
    let times = lease.call().times;
    let mut state = lease.in_flight().state();
    let is_running = match state.phase() {
        Phase::Running => true,
        _ if state.is_settling() && state.hold_until().is_none() => false,
        // The store may have applied this renewal after the end of the call, so the end is sent again.
        _ => {
            let hold = state.hold_until().map(Ending::SetExpiry);
            drop(state);
            if let (Some(hold), Ok(Swap::Done) | Err(_)) = (hold, answer) {
                settle::settle_in_background(lease, hold);
            }
            return;
        }
    };
    let failure = match answer {
        Ok(Swap::Done) => {
            state.extend_lease(sent + times.lease_time);
            lease.schedule(&mut state, sent + times.renewal());
            return;
        }
        // The call itself may have removed or replaced the record a moment ago.
        Ok(Swap::Absent | Swap::Other(_)) if !is_running => return,
        Ok(Swap::Absent) => {
            lease.lose(state, "its record was removed from the store");
            return;
        }
        Ok(Swap::Other(_)) => {
            lease.lose(state, "another record is stored under its key");
            return;
        }
        Err(error) => error,
    };
    // Every failure is worth another attempt: even permissions and passwords may be wrong only for a moment.
    let due = Instant::now() + (times.lease_time / 20).min(LONGEST_PAUSE);
    let is_first = state.note_failed_renewal();
    lease.schedule(&mut state, due);
    drop(state);
    // Of a success that the store does not take, `unconfirmed` is logged. Another end that it does not take frees the key too late, which
    // is safe.
    if is_first && is_running {
        lease
            .call()
            .emit(EventKind::RenewalFailed, |event| event.caused_by(&failure));
    }
}

/// Sends one renewal of a lease that lasts for another `remaining`.
async fn send(lease: &Lease, remaining: Duration) -> Result<Swap, StoreError> {
    let call = lease.call();
    // A reply may be lost. Half of the remaining time leaves time for another attempt.
    let limit = call.shared.deadline().min(remaining / 2);
    let store = call.shared.store();
    let renewal = store.replace(
        lease.key(),
        lease.record(),
        lease.record(),
        call.times.expiry,
    );
    // A store may be the user's code. Its panic must not end the renewal of this lease.
    let answer = AssertUnwindSafe(StoreAttempt::new(renewal, limit)).catch_unwind();
    answer.await.unwrap_or_else(|_| {
        let panicked = StoreError::new(StoreErrorKind::Unknown, "a panic");
        Err(panicked.reason("panicked"))
    })
}

/// The longest pause between two attempts to renew one lease.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
