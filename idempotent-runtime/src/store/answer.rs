//! The answers of a store.

use std::time::Duration;

use bytes::Bytes;

/// The answer to [`Store::claim`](super::Store::claim).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The value is stored: by this request, or by an earlier request of the same call.
    Claimed,
    /// Another value is stored under the key.
    Taken(Bytes),
}

/// The answer to [`Store::claim_all`](super::Store::claim_all).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAll {
    /// All values are stored: by this request, or by an earlier request of the same call.
    Claimed,
    /// Another value is stored under the key at this place of the request. The request has stored nothing.
    Taken(usize, Bytes),
    /// The store does not claim these keys together. The request has stored nothing, and the caller claims one key after another.
    NotTogether,
}

/// The answer to [`Store::claim_any`](super::Store::claim_any).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAny {
    /// The value is stored under the key at this place of the request: by this request, or by an earlier request of the same call.
    Claimed(usize),
    /// Other values are stored under all keys: these, in the order of the request. The request has stored nothing.
    Taken(Vec<Bytes>),
    /// The store does not look at these keys together. The request has stored nothing, and the caller claims one key after another.
    NotTogether,
}

/// The answer to [`Store::claim_fenced`](super::Store::claim_fenced).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FencedClaim {
    /// The value is stored, and has this fence.
    Claimed(Fence),
    /// Another value is stored under the key.
    Taken(Bytes),
}

/// The fence of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Larger than the number of every earlier claim of the key. Positive, and less than 2⁵³, so that databases, JSON and
    /// scripts represent it exactly.
    pub number: i64,
    /// The number of claims of the key since its last success, this claim included.
    pub attempt: u32,
    /// Whether the claim before this one has not ended: it expired, or was removed without an end.
    pub took_over: bool,
}

/// The answer to [`Store::replace`](super::Store::replace) and [`Store::remove`](super::Store::remove).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// The change is done.
    Done,
    /// Nothing is stored under the key; nothing was changed.
    Absent,
    /// Another value is stored under the key; nothing was changed.
    Other(Bytes),
}

/// The record under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The stored bytes.
    pub value: Bytes,
    /// The remaining time to live. `None` if the record never expires: another program wrote it.
    pub ttl: Option<Duration>,
}

/// The answer to [`Store::count`](super::Store::count).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The number of the attempt in the window, from 1.
    pub attempt: u64,
    /// The remaining time of the window.
    pub remaining: Duration,
}

/// The answer to [`Store::bloom_insert`](super::Store::bloom_insert). There is no third answer: a filter is never certain that
/// it has seen a member.
#[must_use = "a hint decides nothing: confirm `PerhapsSeen` with a store that is certain"]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// The filter has not seen the member, or has lost its data.
    Unseen,
    /// The filter may have seen the member.
    PerhapsSeen,
}
