//! A key whose holder has not renewed its lease in time: its process was killed, or its future was dropped.
//!
//! Nobody else reports it: a killed process writes no line, and a duplicate is only refused. So a duplicate that meets a claim of
//! another process for which a renewal was due asks the store when the record [expires](crate::protocol::expiry).

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{DuplicateState, Error};
use crate::observe::EventKind;
use crate::policy::Release;
use crate::protocol::context::CallContext;
use crate::protocol::lease::Lease;
use crate::protocol::refusal::Refusal;
use crate::protocol::seen::SeenRecord;

/// Whether the holder of a record of this age may have missed a renewal.
pub(crate) fn may_be(call: &CallContext, age: Duration) -> bool {
    let is_renewed = call.policy.release != Release::Never && age < call.times.renew_for;
    let is_kept = |at_least| age < at_least;
    is_renewed
        && age >= call.times.overdue(call.shared.deadline())
        && !call.policy.at_least.is_some_and(is_kept)
}

/// Emits that the key is stuck, if the store has said that the holder of this record does not renew it. `refusal` is the answer to the
/// call that has met the record.
#[inline]
pub(crate) fn report(lease: &Lease, record: &SeenRecord, refusal: &Refusal) {
    if let Some(lives) = record.lives()
        && let Some(duplicate) = refusal.plain_error().and_then(Error::duplicate)
        && duplicate.state() == DuplicateState::Running
        && may_be(lease.call(), duplicate.age())
    {
        report_until(lease, record, lives.until);
    }
}

/// Emits that the key is stuck, if its record was not renewed in time, and expires at this instant.
fn report_until(lease: &Lease, record: &SeenRecord, until: Instant) {
    let call = lease.call();
    let Some(read) = record.read(call.shared.records()) else {
        return;
    };
    let remaining = until.saturating_duration_since(Instant::now());
    let silent = read.ttl().saturating_sub(remaining);
    // A process with other options may renew at other times.
    if read.ttl() != call.times.expiry || silent < call.times.overdue(call.shared.deadline()) {
        return;
    }
    let keys = call.shared.stuck_keys();
    if !keys.note(&lease.site_of_slot(), record.bytes(), until) {
        return;
    }
    let holder = if call.shared.logs_holder() {
        format!(" by {}", read.holder())
    } else {
        String::new()
    };
    let why = format!(
        "it was claimed at {}{holder}, and last renewed or claimed {silent:.1?} ago; it becomes free in {remaining:.1?}",
        read.since_text()
    );
    call.emit(EventKind::Stuck, |event| event.because(&why));
}

/// Emits that the call has the key of a call that did not end, as far as this process or the fence of the key knows.
#[inline]
pub(crate) fn report_takeover(lease: &Lease) {
    let call = lease.call();
    let is_known = (call.shared.stuck_keys()).take_over(|| lease.site_of_slot());
    let fence = || lease.claim().fence.get().copied();
    if is_known || call.policy.fence && fence().is_some_and(|fence| fence.took_over) {
        call.emit(EventKind::TookOver, |event| event);
    }
}
