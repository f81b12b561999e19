//! Keeping a lease alive: when the claim is renewed, and what the answers of the store mean.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;

use crate::observe::EventKind;
use crate::protocol::ending::Ending;
use crate::protocol::lease::{Lease, NOT_IN_TIME};
use crate::protocol::retry::Try;
use crate::protocol::scheduler::{Scheduled, Work};
use crate::protocol::settle;
use crate::protocol::state::Phase;
use crate::store::{StoreError, StoreErrorKind, Swap};
use crate::world::naive;

impl Scheduled for Lease {
    fn due(self: Arc<Self>) -> Option<Work> {
        let mut state = self.flight.state();
        state.slot = None;
        let (now, good_until) = (Instant::now(), state.good_until);
        match state.phase {
            Phase::Running if now >= good_until => {
                self.lose(state, NOT_IN_TIME);
                return None;
            }
            Phase::Settling if now >= good_until || state.hold_until.is_some() => return None,
            Phase::Settling if naive!(KeeperStopsAtBodyEnd) => return None,
            Phase::Running | Phase::Settling => {}
            _ => return None,
        }
        if now >= state.since + self.call.times.renew_for {
            self.schedule(&mut state, good_until);
            return None;
        }
        state.renewed = true;
        drop(state);
        Some(Box::pin(renew(self, good_until)))
    }
}

async fn renew(lease: Arc<Lease>, good_until: Instant) {
    let sent = Instant::now();
    let answer = send(&lease, good_until.duration_since(sent)).await;
    let times = &lease.call.times;
    let mut state = lease.flight.state();
    let running = match state.phase {
        Phase::Running => true,
        Phase::Settling if state.hold_until.is_none() => false,
        // It may have been applied after what the end of the call has sent.
        _ => {
            let hold = state.hold_until.map(Ending::Hold);
            drop(state);
            if let (Some(hold), Ok(Swap::Done) | Err(_)) = (hold, answer) {
                settle::hand_over(lease, hold);
            }
            return;
        }
    };
    let failed = match answer {
        Ok(Swap::Done) => {
            state.failing = false;
            state.good_until = state.good_until.max(sent + times.lease);
            lease.schedule(&mut state, sent + times.renewal());
            return;
        }
        // The record may be gone because the call has just settled it.
        Ok(Swap::Absent | Swap::Other(_)) if !running => return,
        Ok(Swap::Absent) => {
            lease.lose(state, "its record is gone from the store");
            return;
        }
        Ok(Swap::Other(_)) => {
            lease.lose(state, "another record stands under its key");
            return;
        }
        Err(error) => error,
    };
    // Whatever the failure: permissions and passwords, too, may be wrong for a moment only.
    let due = Instant::now() + (times.lease / 20).min(LONGEST_PAUSE);
    let first = !std::mem::replace(&mut state.failing, true);
    lease.schedule(&mut state, due);
    drop(state);
    if first {
        lease
            .call
            .tell(EventKind::RenewalFailed, |event| event.caused_by(&failed));
    }
}

/// Sends one renewal of a lease that is good for `left`.
async fn send(lease: &Lease, left: Duration) -> Result<Swap, StoreError> {
    let call = &lease.call;
    // A reply may just be lost: a short lease is to outlive that.
    let limit = call.shared.deadline().min(left / 2);
    let store = call.shared.store();
    let renewal = store.replace(&call.key, &lease.record, &lease.record, call.times.expiry);
    // A store is somebody else's code: its panic must not end the keeper of all other claims.
    let answer = AssertUnwindSafe(Try::new(renewal, limit)).catch_unwind();
    answer.await.unwrap_or_else(|_| {
        let panicked = "the store panicked";
        Err(StoreError::new(StoreErrorKind::Unknown, panicked))
    })
}

/// The longest pause between two tries to renew one claim.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
