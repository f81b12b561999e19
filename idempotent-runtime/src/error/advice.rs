//! What a client should do about a refused call.

use std::fmt;
#[cfg(any(feature = "axum", feature = "tonic"))]
use std::time::Duration;

use super::call::Error;

/// What a client should do about a refused call: the answer of [`Error::client_action`].
///
/// | error | action | because |
/// | --- | --- | --- |
/// | `InProgress` | `Wait` | the equal call may still fail, and the same one is then allowed |
/// | `AlreadyDone` | `Ignore` | it has worked |
/// | `Taken` | `Ignore` | it was made, and is not to be made twice, whatever came of it |
/// | `PayloadMismatch` | `Fix` | another request has this key: this one needs a key of its own |
/// | `TokenUsed` | `NewToken` | it was redeemed: whether anything was done then is to be looked up, and what comes next needs a token of its own |
/// | `TokenUnknown` | `NewToken` | it has expired, or is somebody else's |
/// | `TokenMalformed` | `Fix` | no such token is ever issued |
/// | `LimitReached` | `Wait` | the next window allows it |
/// | `ResultUnavailable` | `Refresh` | it has worked, and what it gave must be read from where it is kept |
/// | `Unavailable` | `Wait` | the body did not run, and the store may be back |
/// | `LeaseLost` | `Refresh` | the body was stopped in the middle, or its transaction ended under it: a repetition may do its work twice |
/// | `Misconfigured`, `ForeignRecord`, `InvalidKey`, `InvalidPolicy`, `NotInstalled` | `Fix` | the same call meets the same obstacle until somebody has removed it |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientAction {
    /// The request or the server must be mended; to repeat the call does not help.
    Fix,
    /// Make the same call again later.
    Wait,
    /// Do nothing: an equal call takes the place of this one.
    Ignore,
    /// Load the state again before anything else: what came of the call is not known here.
    Refresh,
    /// Fetch a new one-time token, and let the person try again with it.
    NewToken,
}

impl ClientAction {
    /// A stable name for clients: `fix`, `wait`, `ignore`, `refresh` or `new_token`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fix => "fix",
            Self::Wait => "wait",
            Self::Ignore => "ignore",
            Self::Refresh => "refresh",
            Self::NewToken => "new_token",
        }
    }
}

impl fmt::Display for ClientAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Error {
    /// What the client should do about it.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{ClientAction, Error};
    ///
    /// fn may_be_repeated(error: &Error) -> bool {
    ///     error.client_action() == ClientAction::Wait
    /// }
    /// ```
    pub fn client_action(&self) -> ClientAction {
        match self {
            Self::InProgress(_) | Self::LimitReached(_) | Self::Unavailable(_) => {
                ClientAction::Wait
            }
            Self::AlreadyDone(_) | Self::Taken(_) => ClientAction::Ignore,
            Self::ResultUnavailable(_) | Self::LeaseLost(_) => ClientAction::Refresh,
            Self::TokenUsed(_) | Self::TokenUnknown(_) => ClientAction::NewToken,
            Self::PayloadMismatch(_)
            | Self::TokenMalformed(_)
            | Self::Misconfigured(_)
            | Self::ForeignRecord(_)
            | Self::InvalidKey(_)
            | Self::InvalidPolicy(_)
            | Self::NotInstalled(_) => ClientAction::Fix,
        }
    }

    /// Whether a front end should tell nobody: the person's own earlier request takes the place of this one, as after a
    /// double click.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// use idempotence::{Error, Lang};
    ///
    /// fn toast(error: &Error) -> Option<&'static str> {
    ///     (!error.is_silent()).then(|| error.text(Lang::En))
    /// }
    /// ```
    pub fn is_silent(&self) -> bool {
        matches!(
            self,
            Self::InProgress(_) | Self::AlreadyDone(_) | Self::Taken(_)
        )
    }

    /// How long the client should wait. That a done call frees its key in a day is no advice to wait for it.
    #[cfg(any(feature = "axum", feature = "tonic"))]
    pub(crate) fn advised_wait(&self) -> Option<Duration> {
        match self.client_action() {
            ClientAction::Wait => self.retry_after(),
            _ => None,
        }
    }
}

/// A wait in whole units, and at least one. Rounded up: a client that comes too early is refused once more.
#[cfg(any(feature = "axum", feature = "tonic"))]
pub(crate) fn in_whole(unit: Duration, wait: Duration) -> u64 {
    let units = wait.as_nanos().div_ceil(unit.as_nanos()).max(1);
    u64::try_from(units).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_whose_body_did_not_run_are_to_be_repeated() {
        for error in Error::samples() {
            let action = error.client_action();
            let expected = match error.code() {
                "in_progress" | "limit_reached" | "store_unavailable" => "wait",
                "token_used" | "token_unknown" => "new_token",
                "already_done" | "taken" => "ignore",
                "result_unavailable" | "lease_lost" => "refresh",
                _ => "fix",
            };
            assert_eq!(action.as_str(), expected, "{error}");
        }
    }

    #[cfg(any(feature = "axum", feature = "tonic"))]
    #[test]
    fn only_a_call_that_is_to_be_repeated_says_when() {
        for error in Error::samples() {
            let waits = error.client_action() == ClientAction::Wait;
            assert_eq!(error.advised_wait().is_some(), waits, "{error}");
        }
    }
}
