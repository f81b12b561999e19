//! The request that the end of a call sends to the store, and its result.

use bytes::Bytes;
use tokio::time::Instant;

use crate::store::Swap;

/// The request that the end of a call sends to the store.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// Replaces the claim by this record, for `ttl`: a done record, or the mark of an unknown outcome.
    Complete(Bytes),
    /// Replaces the claim by this record without a result, for `ttl`. The store had no room for the result, so the claim
    /// stays for the whole `ttl` until then.
    Tombstone(Bytes),
    /// Removes the claim.
    Remove,
    /// Removes the claim, if it was stored. The body never ran.
    Withdraw,
    /// Sets the claim to expire at this instant, because a renewal may have moved its expiry, or because the key stays taken for the rest
    /// of `at_least`.
    SetExpiry(Instant),
    /// Notes under the key of the fence that the claim has ended. Followers see this done record, if there is one.
    EndFence(Option<Bytes>),
}

impl Ending {
    /// Whether nothing is left to do after this answer, because the claim has gone.
    pub(crate) fn needs_nothing_after(&self, answer: &Swap) -> bool {
        match self {
            Self::Complete(_) | Self::EndFence(_) => false,
            Self::Remove => *answer == Swap::Absent,
            Self::Tombstone(_) | Self::Withdraw | Self::SetExpiry(_) => *answer != Swap::Done,
        }
    }

    /// The record that is in the store now, if it is known.
    pub(crate) fn stored_record(&self, settled: SettleOutcome) -> Option<&Bytes> {
        match self {
            Self::Complete(done) | Self::Tombstone(done) if settled == SettleOutcome::Stored => {
                Some(done)
            }
            Self::EndFence(done) => done.as_ref(),
            _ => None,
        }
    }
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
