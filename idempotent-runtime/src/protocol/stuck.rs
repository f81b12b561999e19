//! A key whose holder has not renewed its lease in time: its process was killed, or its future was dropped.
//!
//! Nobody else reports it: a killed process writes no line, and a duplicate is only refused. So a duplicate that meets a claim of
//! another process for which a renewal was due asks the store, in the background, when the record expires.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Duplicate, DuplicateState, Error};
use crate::observe::EventKind;
use crate::policy::Release;
use crate::protocol::background;
use crate::protocol::background::{Job, NOT_CONFIRMED};
use crate::protocol::context::CallContext;
use crate::protocol::lease::Lease;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::StoreAttempt;
use crate::protocol::seen::SeenRecord;
use crate::protocol::shared::Shared;

/// Looks whether the holder of the key renews its lease. `refusal` is the answer to the call that has met its `record`.
#[inline]
pub(crate) fn look(lease: &Arc<Lease>, record: &Arc<SeenRecord>, refusal: &Refusal) {
    if let Some(duplicate) = refusal.plain_error().and_then(Error::duplicate)
        && duplicate.state() == DuplicateState::Running
    {
        look_at(lease, record, duplicate);
    }
}

fn look_at(lease: &Arc<Lease>, record: &Arc<SeenRecord>, duplicate: &Duplicate) {
    let call = lease.call();
    let is_renewed =
        call.policy.release != Release::Never && duplicate.age() < call.times.renew_for;
    if !is_renewed
        || duplicate.age() < overdue(call)
        || call
            .policy
            .at_least
            .is_some_and(|at_least| duplicate.age() < at_least)
        || !call
            .shared
            .stuck_keys()
            .may_ask(&call.site, record.bytes(), Instant::now())
    {
        return;
    }
    let job = Look {
        lease: Arc::clone(lease),
        record: Arc::clone(record),
    };
    background::start(job, lease.scheduler());
}

/// Emits that the call has the key of a call that did not end, as far as this process or the fence of the key knows.
#[inline]
pub(crate) fn report_takeover(lease: &Lease) {
    let call = lease.call();
    let is_known = call.shared.stuck_keys().take_over(&call.site);
    let fence = || lease.claim().fence.get().copied();
    if is_known || call.policy.fence && fence().is_some_and(|fence| fence.took_over) {
        call.emit(EventKind::TookOver, |event| event);
    }
}

/// The time since its last renewal after which a holder is late.
fn overdue(call: &CallContext) -> Duration {
    let renewal = call.times.renewal();
    renewal + renewal.min(call.shared.deadline())
}

/// Asks the store when the record expires.
struct Look {
    lease: Arc<Lease>,
    record: Arc<SeenRecord>,
}

impl Look {
    /// Emits that the key is stuck, if the record expires `remaining` after `asked`.
    fn report(&self, asked: Instant, remaining: Duration) {
        let call = self.lease.call();
        let Some(record) = self.record.read(call.shared.records()) else {
            return;
        };
        let silent = record.ttl().saturating_sub(remaining);
        // A process with other options may renew at other times.
        if record.ttl() != call.times.expiry || silent < overdue(call) {
            return;
        }
        let keys = call.shared.stuck_keys();
        if !keys.note(&call.site, self.record.bytes(), asked + remaining) {
            return;
        }
        let holder = if call.shared.logs_holder() {
            format!(" by {}", record.holder())
        } else {
            String::new()
        };
        let why = format!(
            "it was claimed at {}{holder}, and last renewed or claimed {silent:.1?} ago; it becomes free in {remaining:.1?}",
            record.since_text()
        );
        call.emit(EventKind::Stuck, |event| event.because(&why));
    }
}

impl Job for Look {
    fn shared(&self) -> &Arc<Shared> {
        &self.lease.call().shared
    }

    async fn run(&mut self) -> Result<(), &'static str> {
        let (shared, asked) = (self.shared(), Instant::now());
        let entry =
            StoreAttempt::new(shared.store().get(self.lease.key()), shared.deadline()).await;
        let entry = entry.map_err(|_| NOT_CONFIRMED)?;
        if let Some(entry) = entry
            && entry.value == *self.record.bytes()
            && let Some(remaining) = entry.ttl
        {
            self.report(asked, remaining);
        }
        Ok(())
    }

    /// The next duplicate asks again if the store did not answer.
    fn on_end(&mut self, _: Option<&'static str>) {}
}
