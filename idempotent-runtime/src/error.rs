//! Why a call was refused.

pub(crate) mod advice;
pub(crate) mod closest;
mod duplicate;
mod failure;
mod limited;
#[cfg(test)]
mod responses;
mod setup;
pub(crate) mod store;
pub(crate) mod text;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::duplicate::{Asking, FirstResult, Known, NO_READER, Reading};
use crate::observe::EventKind;
use crate::policy::Release;
use crate::protocol::lease::Lease;
use crate::record::call::{Kept, Record, State};
use crate::store::{StoreError, StoreErrorKind};
use crate::world;

pub use self::duplicate::{Duplicate, DuplicateState};
pub use self::failure::Failure;
pub(crate) use self::failure::Site;
pub use self::limited::Limited;
pub use self::setup::SetupError;

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
#[derive(Debug)]
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
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable(_) => Some(IN_A_MOMENT),
            Self::PayloadMismatch(_) => None,
            Self::LimitReached(limited) => Some(limited.retry_after()),
            _ => self.duplicate().map(Duplicate::retry_after),
        }
    }

    /// A stable name for programs, metrics and clients, such as `in_progress`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InProgress(_) => "in_progress",
            Self::AlreadyDone(_) => "already_done",
            Self::Taken(_) => "taken",
            Self::PayloadMismatch(_) => "payload_mismatch",
            Self::ResultUnavailable(_) => "result_unavailable",
            Self::TokenUsed(_) => "token_used",
            Self::TokenUnknown(_) => "token_unknown",
            Self::TokenMalformed(_) => "token_malformed",
            Self::LimitReached(_) => "limit_reached",
            Self::Unavailable(_) => "store_unavailable",
            Self::Misconfigured(_) => "store_misconfigured",
            Self::ForeignRecord(_) => "foreign_record",
            Self::LeaseLost(_) => "lease_lost",
            Self::InvalidKey(_) => "invalid_key",
            Self::InvalidPolicy(_) => "invalid_policy",
            Self::NotInstalled(_) => "not_installed",
        }
    }

    /// The name of the endpoint that was called.
    pub fn endpoint(&self) -> &str {
        self.site().endpoint.as_str()
    }

    /// What a call is told whose key has this record; `running` says that the call which put it runs for certain.
    pub(crate) fn taken(lease: &Arc<Lease>, record: &Record<'_>, running: bool) -> Self {
        let state = match record.state {
            State::Done if record.is_failure() => DuplicateState::Failed,
            State::Done => DuplicateState::Done,
            State::Running if running || lease.policy.release != Release::Never => {
                DuplicateState::Running
            }
            State::Running => DuplicateState::Unknown,
        };
        let now = world::time_of_day();
        let (age, left) = (record.age(now), record.left(now));
        let mut known = Box::new(Known {
            site: lease.site.clone(),
            state,
            holder: record.holder.to_owned(),
            age,
            retry_after: match state {
                DuplicateState::Running => lease.idempotency.retry_hint(age).min(left),
                _ => left,
            },
            free_in: Some(left),
            result: FirstResult::NotAsked,
        });
        if record.differs_from(lease.flight.payload.as_ref()) {
            return Self::PayloadMismatch(Duplicate(known));
        }
        match state {
            DuplicateState::Running => Self::InProgress(Duplicate(known)),
            DuplicateState::Unknown => Self::Taken(Duplicate(known)),
            DuplicateState::Done if !lease.policy.replay => Self::AlreadyDone(Duplicate(known)),
            DuplicateState::Failed if !lease.policy.replay => {
                known.result = FirstResult::Unavailable(NO_READER);
                Self::ResultUnavailable(Duplicate(known))
            }
            DuplicateState::Done | DuplicateState::Failed => {
                known.result = match record.kept() {
                    Kept::Nothing => FirstResult::NotAsked,
                    Kept::Result(stored) => FirstResult::Stored(stored, Asking(Arc::clone(lease))),
                    Kept::TooLarge => FirstResult::Unavailable("it was too large to be kept"),
                    Kept::Unencodable => FirstResult::Unavailable("it could not be written"),
                    Kept::Unreadable => {
                        FirstResult::Unavailable("it was stored by a later version")
                    }
                };
                match known.result {
                    FirstResult::Unavailable(_) => Self::ResultUnavailable(Duplicate(known)),
                    _ => Self::AlreadyDone(Duplicate(known)),
                }
            }
        }
    }

    /// What a call is told whose key is that of a transaction which was still open after this call had `waited`: the
    /// record is not to be seen.
    pub(crate) fn still_open(lease: &Lease, waited: Duration) -> Self {
        Self::InProgress(Duplicate(Box::new(Known {
            site: lease.site.clone(),
            state: DuplicateState::Running,
            holder: String::new(),
            age: waited,
            retry_after: lease.idempotency.retry_hint(waited),
            free_in: None,
            result: FirstResult::NotAsked,
        })))
    }

    /// Whether it is told of as ended only when its result was looked at.
    pub(crate) fn has_result(&self) -> bool {
        self.duplicate()
            .is_some_and(|duplicate| duplicate.stored().is_some())
    }

    /// The outcome that `answer` makes of the first call's result; if there is none, this as it is told then.
    pub(crate) fn replayed<R>(
        self,
        answer: impl FnOnce(&Duplicate) -> Option<Result<R, &'static str>>,
    ) -> Result<R, Self> {
        let lease = match self.duplicate().map(|duplicate| &duplicate.0.result) {
            Some(FirstResult::Stored(_, Asking(lease))) => Arc::clone(lease),
            _ => return Err(self),
        };
        let reading = Reading(Some(&lease));
        let answer = self.duplicate().and_then(answer);
        reading.done();
        let error = match (answer, self.into_duplicate()) {
            (Some(Ok(outcome)), _) => {
                lease.ended(EventKind::Replayed);
                return Ok(outcome);
            }
            (Some(Err(why)), Ok(mut duplicate)) => {
                duplicate.0.result = FirstResult::Unavailable(why);
                Self::ResultUnavailable(duplicate)
            }
            (_, Ok(mut duplicate)) if duplicate.state() == DuplicateState::Failed => {
                duplicate.0.result = FirstResult::Unavailable(NO_READER);
                Self::ResultUnavailable(duplicate)
            }
            (_, Ok(mut duplicate)) => {
                duplicate.0.result = FirstResult::NotAsked;
                Self::AlreadyDone(duplicate)
            }
            (_, Err(error)) => error,
        };
        lease.refused(&error);
        Err(error)
    }

    pub(crate) fn foreign(site: Site) -> Self {
        Self::ForeignRecord(Failure::new(
            site,
            "something stands under the key that this version did not write, so the body did not run; \
             choose another prefix, or remove the key",
            None,
        ))
    }

    pub(crate) fn store(site: Site, source: StoreError) -> Self {
        match source.kind() {
            StoreErrorKind::Misconfigured => Self::Misconfigured(Failure::new(
                site,
                "the store cannot serve it as it is set up",
                Some(source.into()),
            )),
            _ => Self::Unavailable(Failure::new(
                site,
                "the store is unavailable, so it was refused; try again later",
                Some(source.into()),
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
            Content::Failure(failure) => failure.0.source.as_deref().map(|source| source as _),
            _ => None,
        }
    }
}

/// When to try again if nothing says more.
const IN_A_MOMENT: Duration = Duration::from_secs(1);

#[cfg(test)]
impl Error {
    /// One of each variant.
    pub(crate) fn samples() -> [Self; 16] {
        use crate::key::endpoint::Endpoint;
        use crate::key::fingerprint::Fingerprint;

        let site = || Site {
            endpoint: Endpoint::named("orders.pay"),
            fingerprint: Fingerprint::of(&("A-1",)).ok(),
        };
        let duplicate = |state| {
            Duplicate(Box::new(Known {
                site: site(),
                state,
                holder: "web-3:4242".to_owned(),
                age: Duration::from_secs(5),
                retry_after: match state {
                    DuplicateState::Running => Duration::from_secs(5),
                    _ => Duration::from_millis(28_500),
                },
                free_in: Some(Duration::from_millis(28_500)),
                result: FirstResult::NotAsked,
            }))
        };
        let failure = || {
            let source = StoreError::new(StoreErrorKind::Unknown, "10.0.0.7:6379 said nothing");
            Failure::new(site(), "it failed", Some(source.into()))
        };
        [
            Self::InProgress(duplicate(DuplicateState::Running)),
            Self::AlreadyDone(duplicate(DuplicateState::Done)),
            Self::Taken(duplicate(DuplicateState::Unknown)),
            Self::PayloadMismatch(duplicate(DuplicateState::Done)),
            Self::ResultUnavailable(duplicate(DuplicateState::Done)),
            Self::TokenUsed(failure()),
            Self::TokenUnknown(failure()),
            Self::TokenMalformed(failure()),
            Self::LimitReached(Limited::new(site(), 4, 3, Duration::from_millis(28_500))),
            Self::Unavailable(failure()),
            Self::Misconfigured(failure()),
            Self::ForeignRecord(failure()),
            Self::LeaseLost(failure()),
            Self::InvalidKey(failure()),
            Self::InvalidPolicy(failure()),
            Self::NotInstalled(failure()),
        ]
    }
}
