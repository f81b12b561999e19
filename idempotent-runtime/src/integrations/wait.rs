//! How long a client should wait, in whole units.

use std::time::Duration;

use crate::error::Error;
use crate::error::advice::ClientAction;

/// How long the client should wait. That a done call frees its key in a day is no advice to wait for it.
pub(super) fn advised(error: &Error) -> Option<Duration> {
    match error.client_action() {
        ClientAction::Wait => error.retry_after(),
        _ => None,
    }
}

/// A wait in whole units, and at least one. Rounded up: a client that comes too early is refused once more.
pub(super) fn in_whole(unit: Duration, wait: Duration) -> u64 {
    let units = wait.as_nanos().div_ceil(unit.as_nanos()).max(1);
    u64::try_from(units).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_is_to_be_repeated_says_when() {
        for error in Error::samples() {
            let waits = error.client_action() == ClientAction::Wait;
            assert_eq!(advised(&error).is_some(), waits, "{error}");
        }
    }
}
