//! The steps of a claim with a fence, in a store without one step for both.
//!
//! The number is drawn after the claim. A number from before the claim could be smaller than the number of a holder that came and
//! went in the meantime. After that the claim is read again: it may have been lost before the number was drawn, and then the
//! next holder may have a smaller number.

use std::time::Duration;

use bytes::Bytes;

use super::answer::{Claim, Entry, Fence, FencedClaim, Swap};
use crate::error::store::{StoreError, StoreErrorKind};
use crate::record::fence::{FenceLine, FenceState};
use crate::world::Moment;

/// How long the record of a number is stored at least. A longer time to live of the claim counts instead.
const SHORTEST_LIFE: Duration = Duration::from_hours(24);

/// How long the record of a number is stored, if the claim has this time to live.
pub fn fence_ttl(ttl: Duration) -> Duration {
    ttl.max(SHORTEST_LIFE)
}

/// The answer of [`draw_fence`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawnFence {
    /// The fence of the claim.
    pub fence: Fence,
    /// What the store must store under the key of the fence, together with the claim. `None` if the claim has its fence already, because
    /// the reply to an earlier request was lost.
    pub record: Option<Bytes>,
    /// For how long the record is stored.
    pub ttl: Duration,
}

/// Draws the next fence after the record `stored`, for the claim with the record `claim` and its `ttl`: for a store that writes both
/// in one atomic step, which also compares that `stored` has not changed.
///
/// # Errors
///
/// `Misconfigured` if `stored` is not a fence.
pub fn draw_fence(
    stored: Option<&Bytes>,
    claim: &Bytes,
    ttl: Duration,
) -> Result<DrawnFence, StoreError> {
    let ttl = fence_ttl(ttl);
    let last = stored.map(|stored| FenceLine::read(stored)).transpose()?;
    if let Some(own) = last.filter(|last| last.open_claim() == Some(claim)) {
        return Ok(DrawnFence {
            fence: own.into(),
            record: None,
            ttl,
        });
    }
    let next = FenceLine::next(last, claim, microseconds());
    Ok(DrawnFence {
        fence: next.into(),
        record: Some(next.write()),
        ttl,
    })
}

/// The time of the clock of this process, in microseconds since 1970.
pub(crate) fn microseconds() -> i64 {
    i64::try_from(Moment::now().since_1970.as_micros()).unwrap_or(i64::MAX)
}

/// A claim replaces nothing by a record.
pub(crate) fn swap(claim: Claim) -> Swap {
    match claim {
        Claim::Claimed => Swap::Done,
        Claim::Taken(other) => Swap::Other(other),
    }
}

impl From<FenceLine<'_>> for Fence {
    fn from(line: FenceLine<'_>) -> Self {
        Self {
            number: line.fence,
            attempt: line.attempt,
            took_over: matches!(line.state, FenceState::Takeover(_)),
        }
    }
}

impl Fence {
    /// The record of this fence while the claim with the record `claim` has not ended.
    pub(crate) fn open(&self, claim: &[u8]) -> Bytes {
        let state = if self.took_over {
            FenceState::Takeover(claim)
        } else {
            FenceState::Open(claim)
        };
        let line = FenceLine {
            fence: self.number,
            attempt: self.attempt,
            state,
        };
        line.write()
    }
}

/// The answer to a claim with this `fence`, if `current` was stored under its key after the number was drawn.
pub(super) fn confirm(
    claim: &Bytes,
    fence: Fence,
    current: Result<Option<Entry>, StoreError>,
) -> Result<FencedClaim, StoreError> {
    match current.map_err(unknown)? {
        Some(entry) if entry.value == *claim => Ok(FencedClaim::Claimed(fence)),
        Some(entry) => Ok(FencedClaim::Taken(entry.value)),
        None => {
            let lost = StoreError::new(StoreErrorKind::Unknown, "the claim is not stored");
            Err(lost.reason("removed the claim before it had its fence"))
        }
    }
}

/// Whether another attempt would fail for the same reason.
pub(crate) fn is_permanent(error: &StoreError) -> bool {
    let permanent = [StoreErrorKind::Full, StoreErrorKind::Misconfigured];
    permanent.contains(&error.kind())
}

/// The error of a claim that is stored without a number.
pub(super) fn unknown(error: StoreError) -> StoreError {
    error.with_kind(StoreErrorKind::Unknown)
}
