//! When the record of another call expires.
//!
//! The answer to a claim does not say it, and a renewal does not change the bytes of the record. So the time to live is counted from
//! the last renewal that was due. That is wrong if the holder was killed, or if its claim is kept: see
//! [`kept_claim`](crate::protocol::kept_claim). So a duplicate that meets such a record asks the store.

use std::sync::Arc;

use tokio::time::Instant;

use crate::protocol::context::CallContext;
use crate::protocol::lease::Lease;
use crate::protocol::retry::Backoff;
use crate::protocol::seen::{Lives, SeenRecord};
use crate::protocol::{kept_claim, stuck};
use crate::record::call::{Record, RecordState};
use crate::world;

/// Whether only the store knows when this record expires. Most duplicates meet a record whose first renewal is not due, and ask the
/// store nothing more.
pub(crate) fn is_unclear(lease: &Lease, record: &SeenRecord) -> bool {
    unclear(lease, record).is_some()
}

/// A record of which only the store knows when it expires.
struct Unclear {
    may_be_kept: bool,
}

fn unclear(lease: &Lease, record: &SeenRecord) -> Option<Unclear> {
    if !Record::may_be_claim(record.bytes()) {
        return None;
    }
    let call = lease.call();
    unclear_claim(call, &record.read(call.shared.records())?)
}

/// Does the same as [`is_unclear`], for a record that was read.
pub(crate) fn is_unclear_claim(call: &CallContext, record: &Record<'_>) -> bool {
    record.state == RecordState::Running && unclear_claim(call, record).is_some()
}

fn unclear_claim(call: &CallContext, record: &Record<'_>) -> Option<Unclear> {
    let may_be_kept = kept_claim::may_be(call, record);
    let is_unclear = may_be_kept || stuck::may_be(call, record.age(world::time_of_day()));
    is_unclear.then_some(Unclear { may_be_kept })
}

/// The record that has the key. Asks the store how long the record lives, if that [is unclear](is_unclear) and was not asked a moment
/// ago; without an answer its holder counts as alive.
pub(crate) async fn look(
    lease: &Lease,
    record: Arc<SeenRecord>,
    backoff: &Backoff,
) -> Arc<SeenRecord> {
    let Some(Unclear { may_be_kept }) = unclear(lease, &record) else {
        return record;
    };
    let (key, bytes) = (lease.key(), record.bytes());
    let (call, asked) = (lease.call(), Instant::now());
    let stuck_keys = call.shared.stuck_keys();
    if (stuck_keys.may_ask(&lease.site_of_slot(), bytes, asked) || may_be_kept)
        && let Ok(Some(entry)) = backoff.attempt(call.shared.store().get(key)).await
        && entry.value == *bytes
    {
        let seen = kept_claim::seen(lease, entry, asked);
        if seen.lives().is_some_and(|lives| lives.is_kept) {
            // Not of a dead holder.
            stuck_keys.forget(&lease.site_of_slot());
        }
        return seen;
    }
    let Some(until) = stuck_keys.free_at(&lease.site_of_slot(), bytes) else {
        return record;
    };
    let lives = Lives {
        until,
        is_kept: false,
    };
    Arc::new(SeenRecord::with_time(key, bytes.clone(), Some(lives)))
}
