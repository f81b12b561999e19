//! The error of a guarded call.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::duplicate::{Duplicate, DuplicateState};
use super::failure::{Failure, Site, Subject};
use super::limited::Limited;
use super::store::{StoreError, StoreErrorKind};
use crate::key::endpoint::Endpoint;
use crate::key::name::InvalidName;
use crate::policy::duration::Rough;

/// Why a guarded call did not run its body, or was stopped in it.
///
/// Two words wide. Its [`Display`](fmt::Display) is one line: the endpoint, the first 8 hexadecimal digits of the key's
/// fingerprint, what happened, why, and what to do. The line contains no argument of the call, and no host, process, path or
/// statement, so it does no harm if a client gets it. The place is in [`Debug`] and in [`source`](StdError::source).
///
/// An error of a [step](crate::IdempotencyContext::step) comes from a body that ran up to that step.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::Error;
///
/// fn answer(error: &Error) -> (u16, &'static str) {
///     (error.http_status(), error.code())
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// An equal call is running. Or the key is in use by another call, which does other work: with [`also`](crate::GuardedCall::also) a
    /// call that has other keys as well, with [`permits`](crate::GuardedCall::permits) as many calls as may run. Such a call is
    /// no [duplicate](Self::is_duplicate), so try again.
    InProgress(Duplicate),
    /// An equal call ended with a success less than `ttl` ago.
    AlreadyDone(Duplicate),
    /// An equal call was made less than `ttl` ago, with `release = false`. It may be running or have ended.
    Taken(Duplicate),
    /// An equal call ended, and its work may be done or not: the option `hold_err` holds its key for `ttl`, or the layer for HTTP
    /// holds the key of an equal request. The body did not run again.
    ///
    /// Ask the system that did the work. Then [`Idempotency::forget`](crate::Idempotency::forget) frees the key.
    OutcomeUnknown(Duplicate),
    /// Another call has the key, with another payload. The body did not run.
    PayloadMismatch(Duplicate),
    /// An equal call ended, and its result cannot be returned: for example because it was too large to be stored, or
    /// was stored as another type. The body did not run again.
    ResultUnavailable(Duplicate),
    /// The one-time token was redeemed before. The body did not run.
    TokenUsed(Failure),
    /// The one-time token is unknown: it has expired, was never issued, or was issued to another subject or for another
    /// operation. The body did not run.
    TokenUnknown(Failure),
    /// The text from the client does not have the form of a one-time token or an order number. Nothing was sent to the store,
    /// and the body did not run.
    TokenMalformed(Failure),
    /// The attempt exceeds the limit of a [`Counter`](crate::Counter).
    LimitReached(Limited),
    /// The store gave no answer in time, or refused the operation. The body did not run. With the option `tx`: roll back the
    /// transaction. It may be run again.
    Unavailable(Failure),
    /// The store is not set up for the call. The body did not run.
    Misconfigured(Failure),
    /// The key holds a record that this version did not write or that belongs to another key, or a result that was not sealed for this
    /// key. The body did not run.
    ForeignRecord(Failure),
    /// The claim could not be renewed in time. The body was stopped at an await, so its work may be done or not. With the
    /// option `tx`: when the body returned, the row was no longer in the transaction, for example because the body continued
    /// after a deadlock. The later work of the body may be committed: check it before you repeat the call.
    LeaseLost(Failure),
    /// A key part could not be serialized, or a name is not allowed. The body did not run.
    InvalidKey(Failure),
    /// A value of the policy is out of its range, for example a `ttl` of zero (allowed: 1 ms to 100 years), or two options
    /// contradict each other. The body did not run. Or a step of the body has the name of another step, another place in the order, or another
    /// type than in an earlier run, or a result that is too large: the [source](StdError::source) names the places in the code.
    InvalidPolicy(Failure),
    /// No [`Idempotency`](crate::Idempotency) is installed or in scope. The body did not run.
    NotInstalled(Failure),
}

impl Error {
    /// Whether an equal call has the key: running, done, taken, or ended without a known outcome. A call with another payload, or with
    /// other keys of [`also`](crate::GuardedCall::also), is not equal, and a call that lacks a permit is no duplicate.
    pub fn is_duplicate(&self) -> bool {
        let equal = self.duplicate().is_some_and(Duplicate::is_equal);
        equal && !matches!(self, Self::PayloadMismatch(_))
    }

    /// Whether the failure of the store may be temporary, so that the same call may succeed later.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// What is known about the call that has the key.
    pub fn duplicate(&self) -> Option<&Duplicate> {
        match self.content() {
            ErrorContent::Duplicate(duplicate) => Some(duplicate),
            _ => None,
        }
    }

    /// A hint when to repeat the call, counted from now. `None`: repeating does not help.
    ///
    /// If the equal call runs, this is a guess at its end, from 1 s to 10 s unless the handle's
    /// [`retry_hint`](crate::Builder::retry_hint) sets another range; [`Duplicate::free_in`] is when its key becomes free. If
    /// the equal call has ended, this is when its key becomes free. [`client_action`](Self::client_action) says whether a
    /// client should wait that long.
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

    /// The error of a name that is not valid for an endpoint. The error names no endpoint.
    pub(crate) fn invalid_name(subject: Subject, name: &InvalidName) -> Self {
        let site = Site::of(subject, Endpoint::named("?"));
        Self::InvalidKey(Failure::new(site, name.to_string(), None))
    }

    /// The refusal of a call whose key has bytes of another program or another version. `found` describes them without
    /// their content.
    pub(crate) fn foreign(site: Site, found: impl fmt::Display) -> Self {
        let what = format!(
            "refused because the key holds {found}, which this version did not write; \
             remove the key, or choose another `prefix` of the handle"
        );
        Self::ForeignRecord(Failure::new(site, what, None))
    }

    /// The refusal of a call that got the record of another key.
    pub(crate) fn of_another_key(site: Site) -> Self {
        let what = "refused because the store answered with the record of another key: an answer was lost or repeated on the way, by a proxy or \
                    an attacker; connect again, and use TLS";
        Self::ForeignRecord(Failure::new(site, what, None))
    }

    /// The refusal of a call whose key has a result that this program did not write for it. `found` says what is wrong, and what to
    /// do.
    pub(crate) fn foreign_result(site: Site, found: &'static str) -> Self {
        let what = format!("refused because the key holds {found}");
        Self::ForeignRecord(Failure::new(site, what, None))
    }

    /// The store failed to serve a call, so the body does not run.
    pub(crate) fn store(site: Site, source: StoreError) -> Self {
        Self::of_store(site, source, BODY_DID_NOT_RUN)
    }

    /// The store failed to serve an operation that has no body.
    pub(crate) fn store_operation(site: Site, source: StoreError) -> Self {
        Self::of_store(site, source, OPERATION_FAILED)
    }

    /// The store failed to serve a step of a body. `so` is the consequence for the step.
    pub(crate) fn of_step(site: Site, source: StoreError, so: &'static str) -> Self {
        Self::of_store(site, source, so)
    }

    fn of_store(site: Site, source: StoreError, so: &'static str) -> Self {
        match source.kind() {
            _ if source.is_foreign_record() => Self::ForeignRecord(Failure::store(
                site,
                source,
                so,
                "remove the key, or choose another `prefix` of the handle",
            )),
            StoreErrorKind::Misconfigured => Self::Misconfigured(Failure::store(
                site,
                source,
                so,
                "`Idempotency::doctor` names what to change",
            )),
            _ => Self::Unavailable(Failure::store(site, source, so, "try again later")),
        }
    }

    /// Attributes the error to the call at `site`.
    pub(crate) fn at(mut self, site: &Site) -> Self {
        if let Self::TokenUsed(failure)
        | Self::TokenUnknown(failure)
        | Self::TokenMalformed(failure)
        | Self::Unavailable(failure)
        | Self::Misconfigured(failure)
        | Self::ForeignRecord(failure)
        | Self::InvalidKey(failure) = &mut self
        {
            failure.attribute_to(site, BODY_DID_NOT_RUN);
        }
        self
    }

    /// What is known about the equal call, for the option `on_duplicate`.
    pub(crate) fn into_duplicate(self) -> Result<Duplicate, Self> {
        match self {
            Self::InProgress(running) if !running.is_equal() => Err(Self::InProgress(running)),
            Self::InProgress(duplicate) | Self::AlreadyDone(duplicate) | Self::Taken(duplicate) => {
                Ok(duplicate)
            }
            // The result of a success cannot replace a stored error.
            Self::ResultUnavailable(duplicate) if duplicate.state() != DuplicateState::Failed => {
                Ok(duplicate)
            }
            other => Err(other),
        }
    }

    pub(crate) fn site(&self) -> &Site {
        match self.content() {
            ErrorContent::Duplicate(duplicate) => &duplicate.0.site,
            ErrorContent::Failure(failure) => &failure.0.site,
            ErrorContent::Limited(limited) => &limited.0.site,
        }
    }

    fn content(&self) -> ErrorContent<'_> {
        match self {
            Self::InProgress(duplicate)
            | Self::AlreadyDone(duplicate)
            | Self::Taken(duplicate)
            | Self::OutcomeUnknown(duplicate)
            | Self::PayloadMismatch(duplicate)
            | Self::ResultUnavailable(duplicate) => ErrorContent::Duplicate(duplicate),
            Self::LimitReached(limited) => ErrorContent::Limited(limited),
            Self::TokenUsed(failure)
            | Self::TokenUnknown(failure)
            | Self::TokenMalformed(failure)
            | Self::Unavailable(failure)
            | Self::Misconfigured(failure)
            | Self::ForeignRecord(failure)
            | Self::LeaseLost(failure)
            | Self::InvalidKey(failure)
            | Self::InvalidPolicy(failure)
            | Self::NotInstalled(failure) => ErrorContent::Failure(failure),
        }
    }
}

/// The content of a variant.
enum ErrorContent<'a> {
    Duplicate(&'a Duplicate),
    Failure(&'a Failure),
    Limited(&'a Limited),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.content() {
            ErrorContent::Duplicate(duplicate) if matches!(self, Self::PayloadMismatch(_)) => {
                write!(
                    f,
                    "{}: refused because the key was used with another payload {} ago; \
                 use a new key for a new request",
                    duplicate.0.site,
                    Rough(duplicate.age()),
                )
            }
            ErrorContent::Duplicate(duplicate) if matches!(self, Self::OutcomeUnknown(_)) => {
                write!(
                    f,
                    "{}: refused because an equal call ended {} ago, and nobody knows whether it did its work; \
                 find out what it did before you repeat it, then free the key with `Idempotency::forget` \
                 (else it is free in {})",
                    duplicate.0.site,
                    Rough(duplicate.age()),
                    Rough(duplicate.retry_after()),
                )
            }
            ErrorContent::Duplicate(duplicate) => duplicate.fmt(f),
            ErrorContent::Failure(failure) => failure.fmt(f),
            ErrorContent::Limited(limited) => limited.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self.content() {
            ErrorContent::Failure(failure) => failure.source(),
            _ => None,
        }
    }
}

const BODY_DID_NOT_RUN: &str = "so the call was refused and its body did not run";
const OPERATION_FAILED: &str = "so the operation failed";

/// When to try again if there is no better guess.
const IN_A_MOMENT: Duration = Duration::from_secs(1);
