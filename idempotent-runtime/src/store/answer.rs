//! What a store answers.

use std::time::Duration;

use bytes::Bytes;

/// The answer to [`Store::claim`](super::Store::claim).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The value now stands there (or stood there already, put by this very call).
    Claimed,
    /// Another value stands there.
    Taken(Bytes),
}

/// The answer to [`Store::replace`](super::Store::replace) and [`Store::remove`](super::Store::remove).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// The change is made.
    Done,
    /// Nothing stands there; nothing was changed.
    Absent,
    /// Another value stands there; nothing was changed.
    Other(Bytes),
}

/// What stands under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The stored bytes.
    pub value: Bytes,
    /// How long it will stand from now on; `None` if it never expires (it is not ours, then).
    pub ttl: Option<Duration>,
}

/// The answer to [`Store::count`](super::Store::count).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Which attempt of the window this is, counted from 1.
    pub attempt: u64,
    /// How long the window lasts from now on.
    pub remaining: Duration,
}

/// The answer to [`Store::bloom_insert`](super::Store::bloom_insert). There is no third one: a filter never knows that it has seen something.
#[must_use = "it decides nothing: what was perhaps seen is for a store that knows"]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// The filter has not seen it, or has lost what it knew.
    Unseen,
    /// The filter may have seen it: only a store that knows can say.
    PerhapsSeen,
}
