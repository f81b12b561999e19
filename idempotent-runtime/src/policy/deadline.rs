//! The default deadline of a handle, and the timeout of the first attempt of an operation.

use std::time::Duration;

/// The default deadline of a handle: the maximum total time of an operation.
pub const DEFAULT: Duration = Duration::from_secs(1);

/// How long the first attempt of an operation may take.
///
/// The reply may be lost, so the first attempt gets only a part of the deadline. The store may be slow, so the next
/// attempt gets all the remaining time.
pub fn first_try(deadline: Duration) -> Duration {
    deadline / 4
}
