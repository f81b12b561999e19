//! An outcome that the store has not taken in time: its process gives it to equal calls until the store has it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::protocol::in_flight::InFlight;
use crate::protocol::lease::Lease;
use crate::protocol::seen::{Lives, SeenRecord};
use crate::protocol::state::Phase;

/// Gives the outcome of the call to its duplicates until the lease is finished, but no longer than the record would live if it was
/// stored now.
pub(crate) fn show(lease: &Arc<Lease>, outcome: &Bytes) {
    let lives = Lives {
        until: Instant::now() + lease.end_ttl(outcome),
        is_kept: false,
    };
    let outcome = SeenRecord::with_time(lease.key(), outcome.clone(), Some(lives));
    let mut state = lease.in_flight().state();
    match state.phase() {
        Phase::Unrecorded(_) => return,
        Phase::Lost(_) => state.reopen(),
        // An operator has freed the key.
        _ if state.shown_phase().is_err() => return,
        _ => {}
    }
    InFlight::set_phase_in(state, Phase::Unrecorded(Arc::new(outcome)));
    lease.enter_again();
}

/// Enters the table if the outcome must be shown and the call is not in the table: it has lost its lease, or has claimed its key beside
/// an equal call.
pub(crate) fn enter(lease: &Arc<Lease>) {
    let is_shown = matches!(
        lease.in_flight().state().shown_phase(),
        Ok(Phase::Unrecorded(_))
    );
    if is_shown {
        lease.enter_again();
    }
}
