//! The deadline of a handle, and the part of it that the first try of an operation has.

use std::time::Duration;

/// How long an operation may take in all on a handle that sets no deadline.
pub(crate) const DEFAULT: Duration = Duration::from_secs(1);

/// How long the first try of an operation may take.
///
/// A reply may just be lost, so the first try does not get all the time; a store may just be slow, so the next one does.
pub(crate) fn first_try(deadline: Duration) -> Duration {
    deadline / 4
}
