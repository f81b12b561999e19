//! The request that the end of a call sends to the store, and its result.

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
    /// Notes under the key of the fence that the claim has ended. Followers see this done record, if there is one.
    EndFence(Option<Bytes>),
}

/// Whether the end of a call is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleOutcome {
    /// The end is stored.
    Stored,
    /// Nothing more is sent, because a later send would change nothing: the key has another record, or none.
    Closed,
    /// The end may be stored by a later send, in the background.
    Open,
}
