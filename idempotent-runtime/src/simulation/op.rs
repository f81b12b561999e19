//! The operations of the simulated store, and their answers.

use std::time::Duration;

use bytes::Bytes;

use crate::store::{Claim, ClaimAll, ClaimAny, Entry, FencedClaim, Swap};

/// The operation of a message.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Claim {
        value: Bytes,
        ttl: Duration,
    },
    /// Claims all keys or none.
    ClaimAll {
        claims: Vec<(usize, Bytes)>,
        ttl: Duration,
    },
    /// Claims the first free key.
    ClaimAny {
        claims: Vec<(usize, Bytes)>,
        ttl: Duration,
    },
    Replace {
        expected: Bytes,
        value: Bytes,
        ttl: Duration,
    },
    Remove {
        expected: Bytes,
    },
    Exchange {
        expected: Bytes,
        value: Bytes,
    },
    Get,
    /// Claims a key, and draws a number under the key of its fence.
    ClaimFenced {
        value: Bytes,
        ttl: Duration,
    },
    /// The operations from here on are not in the contract of [`Store`](crate::Store). Only mutants send them.
    Draw {
        value: Bytes,
    },
    Set {
        value: Bytes,
        ttl: Option<Duration>,
    },
    Touch {
        claimed: Bytes,
        ttl: Duration,
    },
    Delete {
        claimed: Bytes,
    },
    /// Replaces any line of a token. Without a line, stores it for `ttl`.
    Overwrite {
        value: Bytes,
        ttl: Option<Duration>,
    },
}

#[derive(Debug, Clone)]
pub(super) enum Answer {
    Claim(Claim),
    All(ClaimAll),
    Any(ClaimAny),
    Fenced(FencedClaim),
    Swap(Swap),
    Entry(Option<Entry>),
}
