//! The error of a guarded call.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::duplicate::{Duplicate, DuplicateState};
use super::failure::{Failure, Site};
use super::limited::Limited;
use super::store::{StoreError, StoreErrorKind};
use crate::key::endpoint::{Endpoint, InvalidName};

/// Why a guarded call did not run its body, or was stopped in it.
///
/// Two words wide. The text names the endpoint and the first 8 hexadecimal digits of the key's
/// fingerprint, never an argument.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::Error;
///
/// fn status(error: &Error) -> u16 {
///     if error.is_duplicate() {
///         409
///     } else if error.is_unavailable() {
///         503
///     } else {
///         500
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// An equal call is running.
    InProgress(Duplicate),
    /// An equal call ended with a success less than `ttl` ago.
    AlreadyDone(Duplicate),
    /// An equal call was made less than `ttl` ago, with `release = false`: it may be running or over.
    Taken(Duplicate),
    /// An equal call has the key, and was made with another payload; the body did not run.
    PayloadMismatch(Duplicate),
    /// An equal call ended with a success, and its result cannot be given: it was too large to be kept, say, or
    /// was written for another type. The body did not run again.
    ResultUnavailable(Duplicate),
    /// The one-time token was redeemed before; the body did not run.
    TokenUsed(Failure),
    /// There is no such one-time token: it has expired, was never issued, or was issued to somebody else or for something
    /// else. The body did not run.
    TokenUnknown(Failure),
    /// What the client sent cannot be a one-time token, or an order number; nothing was sent to the store, and the body did not run.
    TokenMalformed(Failure),
    /// As many attempts as a [`Counter`](crate::Counter) allows were made in its window.
    LimitReached(Limited),
    /// The store could not be asked; the body did not run. With the option `tx`: the transaction must be rolled back,
    /// and may be run again.
    Unavailable(Failure),
    /// The store cannot serve the call as it is set up; the body did not run.
    Misconfigured(Failure),
    /// Something stands under the key that this version did not write; the body did not run.
    ForeignRecord(Failure),
    /// The claim could not be renewed in time; the body was stopped at an await, so its work may be
    /// done or not. With the option `tx`: the row was gone from the transaction when the body had ended, because the
    /// body went on after a deadlock, say; what it did after that may be committed, so it is not to be run again unseen.
    LeaseLost(Failure),
    /// A key part could not be encoded; the body did not run.
    InvalidKey(Failure),
    /// The policy makes no sense, such as a `ttl` expression that gave zero; the body did not run.
    InvalidPolicy(Failure),
    /// There is no [`Idempotency`](crate::Idempotency) to use; the body did not run.
    NotInstalled(Failure),
}

impl Error {
    /// Whether an equal call has the key: running, done, or taken. (With another payload it is not an equal one.)
    pub fn is_duplicate(&self) -> bool {
        !matches!(self, Self::PayloadMismatch(_)) && self.duplicate().is_some()
    }

    /// Whether the store could not be asked, so that the same call may succeed later.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// What is known of the equal call that has the key.
    pub fn duplicate(&self) -> Option<&Duplicate> {
        match self.content() {
            Content::Duplicate(duplicate) => Some(duplicate),
            _ => None,
        }
    }

    /// When a repeated call may fare better, counted from now; a hint. `None`: repeating does not help.
    ///
    /// Of a running call it is a guess at its end, from 1 s to 10 s unless the handle's
    /// [`retry_hint`](crate::Builder::retry_hint) says otherwise; when its key would be free is [`Duplicate::free_in`].
    /// Of a call that is over it is when its key is free. Whether the client should wait for that, says
    /// [`client_action`](Self::client_action).
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable(_) => Some(IN_A_MOMENT),
            Self::PayloadMismatch(_) => None,
            Self::LimitReached(limited) => Some(limited.retry_after()),
            _ => self.duplicate().map(Duplicate::retry_after),
        }
    }

    /// The name of the endpoint that was called.
    pub fn endpoint(&self) -> &str {
        self.site().endpoint.as_str()
    }

    /// What has no endpoint, because none can have its name.
    pub(crate) fn invalid_name(name: InvalidName) -> Self {
        let site = Site::without_key(Endpoint::named("?"));
        Self::InvalidKey(Failure::new(site, name.to_string(), None))
    }

    /// The refusal of a call whose key has bytes of another program or another version. `found` describes them without
    /// their content.
    pub(crate) fn foreign(site: Site, found: impl fmt::Display) -> Self {
        let what = format!(
            "found {found} under the key, which this version did not write, so the body did not run; \
             remove the key, or choose another `prefix` of the handle"
        );
        Self::ForeignRecord(Failure::new(site, what, None))
    }

    pub(crate) fn store(site: Site, source: StoreError) -> Self {
        match source.kind() {
            _ if source.is_foreign_record() => Self::ForeignRecord(Failure::store(
                site,
                source,
                "so the body did not run; remove the key, or choose another `prefix` of the handle",
            )),
            StoreErrorKind::Misconfigured => Self::Misconfigured(Failure::store(
                site,
                source,
                "so the call was refused and its body did not run; `Idempotency::doctor` names what to change",
            )),
            _ => Self::Unavailable(Failure::store(
                site,
                source,
                "so the call was refused and its body did not run; try again later",
            )),
        }
    }

    /// The same failure, of the call that met it.
    pub(crate) fn at(mut self, site: &Site) -> Self {
        if let Self::TokenUsed(failure)
        | Self::TokenUnknown(failure)
        | Self::TokenMalformed(failure)
        | Self::Unavailable(failure)
        | Self::Misconfigured(failure)
        | Self::ForeignRecord(failure)
        | Self::InvalidKey(failure) = &mut self
        {
            failure.0.site = site.clone();
        }
        self
    }

    pub(crate) fn into_duplicate(self) -> Result<Duplicate, Self> {
        match self {
            Self::InProgress(duplicate) | Self::AlreadyDone(duplicate) | Self::Taken(duplicate) => {
                Ok(duplicate)
            }
            // What stands for a success is no answer to an error.
            Self::ResultUnavailable(duplicate) if duplicate.state() != DuplicateState::Failed => {
                Ok(duplicate)
            }
            other => Err(other),
        }
    }

    pub(crate) fn site(&self) -> &Site {
        match self.content() {
            Content::Duplicate(duplicate) => &duplicate.0.site,
            Content::Failure(failure) => &failure.0.site,
            Content::Limited(limited) => &limited.0.site,
        }
    }

    fn content(&self) -> Content<'_> {
        match self {
            Self::InProgress(duplicate)
            | Self::AlreadyDone(duplicate)
            | Self::Taken(duplicate)
            | Self::PayloadMismatch(duplicate)
            | Self::ResultUnavailable(duplicate) => Content::Duplicate(duplicate),
            Self::LimitReached(limited) => Content::Limited(limited),
            Self::TokenUsed(failure)
            | Self::TokenUnknown(failure)
            | Self::TokenMalformed(failure)
            | Self::Unavailable(failure)
            | Self::Misconfigured(failure)
            | Self::ForeignRecord(failure)
            | Self::LeaseLost(failure)
            | Self::InvalidKey(failure)
            | Self::InvalidPolicy(failure)
            | Self::NotInstalled(failure) => Content::Failure(failure),
        }
    }
}

/// What a variant holds.
enum Content<'a> {
    Duplicate(&'a Duplicate),
    Failure(&'a Failure),
    Limited(&'a Limited),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.content() {
            Content::Duplicate(duplicate) if matches!(self, Self::PayloadMismatch(_)) => write!(
                f,
                "{} was made with another payload (by {}, {:.1?} ago); \
                 a new request needs a key of its own",
                duplicate.0.site,
                duplicate.holder(),
                duplicate.age(),
            ),
            Content::Duplicate(duplicate) => duplicate.fmt(f),
            Content::Failure(failure) => failure.fmt(f),
            Content::Limited(limited) => limited.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self.content() {
            Content::Failure(failure) => failure.source(),
            _ => None,
        }
    }
}

/// When to try again if nothing says more.
const IN_A_MOMENT: Duration = Duration::from_secs(1);
