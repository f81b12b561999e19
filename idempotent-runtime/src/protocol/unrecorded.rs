//! An outcome that the store has not taken in time: its process gives it to equal calls until the store has it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::mutation::mutation;
use crate::policy::Release;
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
/// that call fails or dies, its key gets this outcome, so that later calls do not repeat the work. With other values of `release` the
/// outcome would be older than its record may become.
pub(crate) fn may_follow(lease: &Lease, ending: &Ending, other: &Bytes) -> bool {
    let is_outcome = matches!(ending, Ending::Complete(_)) && !mutation!(ForgetsBehindClaim);
    is_outcome
        && lease.call().policy.release == Release::OnError
        && Record::may_be_claim(other)
        && may_store(lease)
}

/// Gives the outcome of the call to its duplicates until the lease is finished, but no longer than the record would live if it was
/// stored now. If an operator has freed the key while the body ran, the call has no duplicates.
fn show(lease: &Arc<Lease>, outcome: &Bytes) {
    let lives = Lives {
        until: Instant::now() + lease.end_ttl(outcome),
        is_kept: false,
    };
    let mut state = lease.in_flight().state();
    state.take_back_duplicates();
    let has_duplicates = state.shown_phase().is_ok();
    match state.phase() {
        // A body that ran without the store is still `Running`.
        Phase::Settling | Phase::Running | Phase::Lost(_)
            if has_duplicates && !mutation!(ForgetsUnrecorded) =>
        {
            let outcome = SeenRecord::with_time(lease.key(), outcome.clone(), Some(lives));
            InFlight::set_phase_in(state, Phase::Unrecorded(Arc::new(outcome)));
            enter(lease);
        }
        _ => {}
    }
}

/// Enters a call whose outcome is shown into the table. It is not there if it has lost its lease, has claimed its key beside an equal call, or
/// was replaced. An equal call that has the key stays in the table, so this is tried again before each send.
pub(crate) fn enter(lease: &Arc<Lease>) {
    let state = lease.in_flight().state();
    let is_shown = matches!(state.shown_phase(), Ok(Phase::Unrecorded(outcome)) if outcome.is_alive(Instant::now()));
    drop(state);
    // A call with permits has no equal calls.
    if is_shown && lease.call().policy.most_holders().is_none() {
        lease.enter_or_replace(|other| !other.in_flight().state().phase().has_key());
    }
}

/// The outcome that another call of this process shows. The claim of that call may have expired.
pub(crate) fn of_other(lease: &Lease) -> Option<Arc<SeenRecord>> {
    match lease.find_other()?.in_flight().snapshot().phase {
        Phase::Unrecorded(outcome) if outcome.is_alive(Instant::now()) => Some(outcome),
        _ => None,
    }
}
