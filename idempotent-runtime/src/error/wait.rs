//! How long a client should wait before it sends its request again, in whole units.

use std::time::Duration;

use super::advice::ClientAction;
use super::call::Error;

/// How long the client should wait. `None` unless the advice is to wait: for example, a client should not wait a day for the
/// key of a done call.
pub(crate) fn advised(error: &Error) -> Option<Duration> {
    match error.client_action() {
        ClientAction::Wait => error.retry_after(),
        _ => None,
    }
}

/// A wait in whole units, at least one unit. It is rounded up, because a client that is too early is refused again.
pub(crate) fn in_whole(unit: Duration, wait: Duration) -> u64 {
    let units = wait.as_nanos().div_ceil(unit.as_nanos()).max(1);
    u64::try_from(units).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_whose_advice_is_to_wait_has_a_wait() {
        for error in Error::samples() {
            let waits = error.client_action() == ClientAction::Wait;
            assert_eq!(advised(&error).is_some(), waits, "{error}");
        }
    }
}
