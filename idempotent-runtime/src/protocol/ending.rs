//! What the end of a call sends to the store.

use bytes::Bytes;
use tokio::time::Instant;

/// What the end of a call sends to the store.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// Replaces the claim by this done record, for `ttl`.
    Complete(Bytes),
    /// Removes the claim.
    Remove,
    /// Removes the claim if it was stored at all. The body never ran.
    Withdraw,
    /// Sets the claim to expire at this instant, which a renewal may have moved.
    SetExpiry(Instant),
}
