//! Marks the claim of a call whose body has ended without a known outcome, so that its duplicates do not take it for running.
//!
//! The marked record is a claim for every reader: it has the key until the same instant. It only says more, so it is sent once, in
//! the background. If the store does not get it, duplicates of other processes take the call for running until the lease ends.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::protocol::background;
use crate::protocol::background::{Job, NOT_CONFIRMED};
use crate::protocol::lease::Lease;
use crate::protocol::retry::StoreAttempt;
use crate::protocol::shared::Shared;

/// Replaces the claim of a call by its marked record. Ends the call for its duplicates in this process afterwards.
pub(crate) fn mark_in_background(lease: Arc<Lease>) {
    let (record, until) = marked(&lease);
    let scheduler = lease.scheduler();
    let job = Mark {
        lease,
        record,
        until,
    };
    background::start(job, scheduler);
}

/// The marked record of a call, and when it expires: when the claim would. From now on duplicates in this process see this record.
fn marked(lease: &Lease) -> (Bytes, Instant) {
    let call = lease.call();
    let mut state = lease.in_flight().state();
    let grace = call.times.expiry.saturating_sub(call.times.lease_time);
    let until = state.good_until() + grace;
    let remaining = until.duration_since(Instant::now());
    let record = call.marked_record(
        lease.key(),
        lease.claim().owner,
        call.shared.moment(),
        remaining,
    );
    state.set_shown_record(lease.key(), &record);
    (record, until)
}

struct Mark {
    lease: Arc<Lease>,
    record: Bytes,
    /// When the marked record expires.
    until: Instant,
}

impl Job for Mark {
    fn shared(&self) -> &Arc<Shared> {
        &self.lease.call().shared
    }

    async fn run(&mut self) -> Result<(), &'static str> {
        let remaining = self.until.duration_since(Instant::now());
        if remaining.is_zero() {
            return Ok(());
        }
        let shared = self.shared();
        let (key, claim) = (self.lease.key(), self.lease.record());
        let replaced = shared.store().replace(key, claim, &self.record, remaining);
        let answer = StoreAttempt::new(replaced, shared.deadline()).await;
        answer.map(drop).map_err(|_| NOT_CONFIRMED)
    }

    /// The record only says less if the job was not done, so no event reports it.
    fn on_end(&mut self, _: Option<&'static str>) {
        self.lease.finish(None);
    }
}
