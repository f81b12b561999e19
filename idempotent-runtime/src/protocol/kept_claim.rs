//! A claim that has its key for the whole `ttl`, because the store had no room for the end of its call.
//!
//! Its bytes say that the call is running. But a renewal gives a claim no more time than the claim asked for. So a claim with
//! more time left, beyond the slack of the store, is no longer renewed: its call has ended, and its result is not stored. Only a
//! clock of the store that was set back also gives a claim more time, so a duplicate learns that the outcome is not known, and never
//! that the call succeeded.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::policy::Release;
use crate::protocol::context::CallContext;
use crate::protocol::lease::Lease;
use crate::protocol::own_claim::OwnClaim;
use crate::protocol::seen::{Lives, SeenRecord};
use crate::record::call::Record;
use crate::record::kept::Kept;
use crate::store::Entry;
use crate::world::{self, Moment};

/// Whether this record may be such a claim. A claim that is younger than the time it asked for counts as running, so most
/// duplicates ask the store nothing more.
pub(crate) fn may_be(call: &CallContext, record: &Record<'_>) -> bool {
    // The other calls never give their claims more time.
    call.policy.release == Release::OnError
        && record.is_older_claim_than_its_time(world::time_of_day())
}

/// What replaces such a claim when the store has room for it: a done record without a result. `end` is the record that found no
/// room; the mark of an unknown outcome stays what it is.
pub(crate) fn tombstone(lease: &Lease, end: &Bytes) -> Bytes {
    if Record::may_be_claim(end) {
        return end.clone();
    }
    let OwnClaim { owner, process, .. } = lease.claim();
    let (now, ttl) = (Moment::now_of(*process), lease.end_ttl(end));
    lease
        .call()
        .done_record(lease.key(), *owner, now, ttl, &Kept::TooLarge)
}

/// The record that the store shows under the key, if it was asked at this instant.
pub(crate) fn seen(lease: &Lease, entry: Entry, asked: Instant) -> Arc<SeenRecord> {
    let call = lease.call();
    let read = call.shared.records().read(lease.key(), &entry.value);
    let is_completed = call.policy.release == Release::OnError;
    let is_kept_claim = |read: Record<'_>| {
        let slack = call.shared.store().expiry_slack(read.ttl());
        read.is_kept_claim(entry.ttl, slack)
    };
    let is_kept = is_completed && read.is_some_and(is_kept_claim);
    let lives = entry.ttl.map(|ttl| Lives {
        until: asked + ttl,
        is_kept,
    });
    let record = SeenRecord::with_time(lease.key(), entry.value, lives);
    Arc::new(record)
}
