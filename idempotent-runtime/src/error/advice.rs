//! What a client should do about a refused call.

use std::fmt;

/// What a client should do about a refused call: the answer of [`Error::client_action`](crate::Error::client_action).
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
