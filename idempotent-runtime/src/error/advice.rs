//! What a client should do about a refused call.

use std::fmt;

/// What a client should do about a refused call. [`Error::client_action`](crate::Error::client_action) returns it.
///
/// | error | action | because |
/// | --- | --- | --- |
/// | `InProgress` | `Wait` | the equal call may still fail, and a repetition may then run |
/// | `AlreadyDone` | `Ignore` | an equal call has succeeded |
/// | `Taken` | `Refresh` | an equal call was made and must not run twice, but it may have failed: read its outcome from your own data |
/// | `OutcomeUnknown` | `Refresh` | an equal call has ended, and its work may be done or not: ask the system that did the work |
/// | `PayloadMismatch` | `Fix` | another request has this key: this request needs a different key |
/// | `TokenUsed` | `NewToken` | the token was redeemed: look up whether the work is done; the next request needs a new token |
/// | `TokenUnknown` | `NewToken` | the token has expired, or was issued to another subject |
/// | `TokenMalformed` | `Fix` | no issued token has this form |
/// | `LimitReached` | `Wait` | the next window allows the attempt |
/// | `ResultUnavailable` | `Refresh` | an equal call has ended: read its outcome from your own data |
/// | `Unavailable` | `Wait` | the body did not run, and the store may be available again |
/// | `LeaseLost` | `Refresh` | the body was stopped, or with `tx` its transaction ended while it ran: a repetition may do its work twice |
/// | `Misconfigured`, `ForeignRecord`, `InvalidKey`, `InvalidPolicy`, `NotInstalled` | `Fix` | the same call fails again until the cause is fixed |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientAction {
    /// The request or the server must be corrected. Repeating the call does not help.
    Fix,
    /// Make the same call again later.
    Wait,
    /// Do nothing: an equal call replaces this call.
    Ignore,
    /// Load the current state first: the outcome of the call is not known here.
    Refresh,
    /// Fetch a new one-time token, and let the user try again with it.
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
