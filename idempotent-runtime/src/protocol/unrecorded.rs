//! An outcome that the store has not taken in time: its process gives it to equal calls until the store has it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::mutation::mutation;
use crate::protocol::ending::Ending;
use crate::protocol::in_flight::InFlight;
use crate::protocol::lease::Lease;
use crate::protocol::seen::{Lives, SeenRecord};
use crate::protocol::state::Phase;
use crate::record::call::Record;

/// Duplicates wait no longer for the end of the call. They get its outcome, or ask the store if there is no outcome.
pub(crate) fn show_or_leave(lease: &Arc<Lease>, ending: &Ending) {
    if let Ending::Complete(outcome) = ending {
        show(lease, outcome);
    }
    let is_shown = matches!(lease.in_flight().state().phase(), Phase::Unrecorded(_));
    if !is_shown {
        lease.leave(None);
    }
}

/// Notes until when the call tries to store its outcome, because its lease may end while its caller waits.
pub(crate) fn note_settling(lease: &Lease, ending: &Ending, until: Instant) {
    if matches!(ending, Ending::Complete(_)) {
        lease.in_flight().state().note_settling(until);
    }
}

/// Whether the outcome may be stored although the claim of the call has gone. An operator who has removed the claim wants the next call to
/// run.
pub(crate) fn may_store(lease: &Lease) -> bool {
    !lease.in_flight().state().is_freed()
}

/// Whether `ending` may be stored after `other`, the record that has the key of the call. A claim of another call may follow the lease. If
/// that call fails or dies, the next call must get this outcome, and not repeat the work.
pub(crate) fn may_follow(lease: &Lease, ending: &Ending, other: &Bytes) -> bool {
    let is_outcome = matches!(ending, Ending::Complete(_)) && !mutation!(ForgetsBehindClaim);
    is_outcome && Record::may_be_claim(other) && may_store(lease)
}

/// Gives the outcome of the call to its duplicates until the lease is finished, but no longer than the record would live if it was
/// stored now. A call whose key an operator has freed while its body ran has no duplicates.
fn show(lease: &Arc<Lease>, outcome: &Bytes) {
    let lives = Lives {
        until: Instant::now() + lease.end_ttl(outcome),
        is_kept: false,
    };
    let mut state = lease.in_flight().state();
    if state.is_lost() {
        state.take_back_duplicates();
    }
    match state.phase() {
        // A body that ran without the store is still `Running`.
        Phase::Settling | Phase::Running | Phase::Lost(_) if !mutation!(ForgetsUnrecorded) => {
            let has_duplicates = state.shown_phase().is_ok();
            let outcome = SeenRecord::with_time(lease.key(), outcome.clone(), Some(lives));
            InFlight::set_phase_in(state, Phase::Unrecorded(Arc::new(outcome)));
            if has_duplicates && lease.call().policy.most_holders().is_none() {
                // It is not in the table if it has claimed its key beside an equal call, or has lost its lease.
                lease.enter();
            }
        }
        _ => {}
    }
}
