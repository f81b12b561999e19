//! What the crate `idempotent-testkit` uses: the events of calls, and what the conformance suite cannot read in a store.

use std::sync::Arc;
use std::time::Duration;

use crate::handle::Idempotency;
use crate::store::fencing;
use crate::store::{Bytes, Fence};

pub use crate::observe::{Recorded, Recording};
pub use crate::store::batch_counts::{BatchCounts, batch_counts};

/// Records the events of the calls of a handle until the recording is dropped. It has no events of the operations of tokens,
/// counters, seen-sets, Bloom filters and order numbers.
pub fn record(idempotency: &Idempotency) -> Arc<Recording> {
    idempotency.shared().observers().record()
}

/// How long [`claim_fenced`](crate::Store::claim_fenced) stores the record of a number at least, if the claim has this time to
/// live.
pub fn fence_ttl(ttl: Duration) -> Duration {
    fencing::fence_ttl(ttl)
}

/// The record of a fence while the claim with the record `claim` has not ended.
pub fn open_fence(fence: &Fence, claim: &[u8]) -> Bytes {
    fence.open(claim)
}
