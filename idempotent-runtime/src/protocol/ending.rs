//! The request that the end of a call sends to the store.

use bytes::Bytes;
use tokio::time::Instant;

/// The request that the end of a call sends to the store.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// Replaces the claim by this done record, for `ttl`.
    Complete(Bytes),
    /// Removes the claim.
    Remove,
    /// Removes the claim, if it was stored. The body never ran.
    Withdraw,
    /// Sets the claim to expire at this instant, because a renewal may have moved its expiry.
    SetExpiry(Instant),
}
