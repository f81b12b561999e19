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

/// Duplicates wait no longer for the end of the call. They get its outcome, or ask the store if there is no outcome.
pub(crate) fn show_or_leave(lease: &Lease, ending: &Ending) {
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

/// Gives the outcome of the call to its duplicates until the lease is finished, but no longer than the record would live if it was
/// stored now. A call that is not in the table has no duplicates: it has lost its lease, has claimed its key beside an equal call, or
/// an operator has freed its key.
fn show(lease: &Lease, outcome: &Bytes) {
    let lives = Lives {
        until: Instant::now() + lease.end_ttl(outcome),
        is_kept: false,
    };
    let state = lease.in_flight().state();
    match state.phase() {
        // A body that ran without the store is still `Running`.
        Phase::Settling | Phase::Running if !mutation!(ForgetsUnrecorded) => {
            let outcome = SeenRecord::with_time(lease.key(), outcome.clone(), Some(lives));
            InFlight::set_phase_in(state, Phase::Unrecorded(Arc::new(outcome)));
        }
        _ => {}
    }
}
