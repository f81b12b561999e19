//! Why a call was refused.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::fingerprint::Fingerprint;
use crate::lease::Lease;
use crate::observe::EventKind;
use crate::policy::Release;
use crate::record::{Kept, Record, State, Stored};
use crate::store::{StoreError, StoreErrorKind};
use crate::world;

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
    /// The store could not be asked; the body did not run. With the option `tx`: the transaction must be rolled back,
    /// and may be run again.
    Unavailable(Failure),
    /// The store cannot serve the call as it is set up; the body did not run.
    Misconfigured(Failure),
    /// Something stands under the key that this version did not write; the body did not run.
    ForeignRecord(Failure),
    /// The claim could not be renewed in time; the body was stopped at an await, so its work may be
    /// done or not.
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
        self.content().ok()
    }

    /// When a repeated call may fare better, counted from now; a hint. `None`: repeating does not help.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable(_) => Some(IN_A_MOMENT),
            Self::PayloadMismatch(_) => None,
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
        match self.content() {
            Ok(duplicate) => duplicate.endpoint(),
            Err(failure) => failure.endpoint(),
        }
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
        let mut known = Box::new(Known {
            site: lease.site.clone(),
            state,
            holder: record.holder.to_owned(),
            age: record.age(now),
            retry_after: record.left(now),
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
    pub(crate) fn still_open(site: Site, waited: Duration) -> Self {
        Self::InProgress(Duplicate(Box::new(Known {
            site,
            state: DuplicateState::Running,
            holder: String::new(),
            age: waited,
            retry_after: IN_A_MOMENT,
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
                "the store is unavailable, so the body did not run; try again later",
                Some(source.into()),
            )),
        }
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
            Ok(duplicate) => &duplicate.0.site,
            Err(failure) => &failure.0.site,
        }
    }

    /// What the variant holds.
    fn content(&self) -> Result<&Duplicate, &Failure> {
        match self {
            Self::InProgress(duplicate)
            | Self::AlreadyDone(duplicate)
            | Self::Taken(duplicate)
            | Self::PayloadMismatch(duplicate)
            | Self::ResultUnavailable(duplicate) => Ok(duplicate),
            Self::Unavailable(failure)
            | Self::Misconfigured(failure)
            | Self::ForeignRecord(failure)
            | Self::LeaseLost(failure)
            | Self::InvalidKey(failure)
            | Self::InvalidPolicy(failure)
            | Self::NotInstalled(failure) => Err(failure),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.content() {
            Ok(duplicate) if matches!(self, Self::PayloadMismatch(_)) => write!(
                f,
                "{} was made with another payload (by {}, {:.1?} ago); \
                 a new request needs a key of its own",
                duplicate.0.site,
                duplicate.holder(),
                duplicate.age(),
            ),
            Ok(duplicate) => duplicate.fmt(f),
            Err(failure) => failure.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        let failure = self.content().err()?;
        failure.0.source.as_deref().map(|source| source as _)
    }
}

/// When to try again if nothing says more.
const IN_A_MOMENT: Duration = Duration::from_secs(1);

/// The equal call that has the key, as far as its record tells.
#[derive(Debug, Clone)]
pub struct Duplicate(Box<Known>);

#[derive(Debug, Clone)]
struct Known {
    site: Site,
    state: DuplicateState,
    holder: String,
    age: Duration,
    retry_after: Duration,
    result: FirstResult,
}

/// Why a function without `replay_err` is not given an error that one with it has stored.
const NO_READER: &str =
    "it ended with an error, which only a function with the option `replay_err` reads";

/// What there is of the result of the call that has the key.
#[derive(Debug, Clone)]
enum FirstResult {
    NotAsked,
    Unavailable(&'static str),
    Stored(Stored, Asking),
}

/// The call that asks for a result, and is told of as ended once it is known whether it can be given.
#[derive(Clone)]
struct Asking(Arc<Lease>);

/// A result that is being read, which is somebody else's code.
struct Reading<'a>(Option<&'a Lease>);

impl Reading<'_> {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(lease) = self.0 {
            lease.ended(EventKind::Panicked);
        }
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// How far the equal call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DuplicateState {
    /// It is running.
    Running,
    /// It ended with a success.
    Done,
    /// It ended with an error that is kept for its duplicates, by the option `replay_err`.
    Failed,
    /// It was made with `release = false`: only its own process knows whether it is over.
    Unknown,
}

impl Duplicate {
    /// How far the equal call has come.
    pub fn state(&self) -> DuplicateState {
        self.0.state
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &str {
        self.0.site.endpoint.as_str()
    }

    /// The process that made the equal call, as `host:pid`. Empty if that is not known yet: its row is in a transaction
    /// that is still open.
    pub fn holder(&self) -> &str {
        &self.0.holder
    }

    /// How long ago the equal call was made, or ended if it is done. Compares two machines' clocks: a hint. Of a
    /// transaction that is still open, how long it was waited for.
    pub fn age(&self) -> Duration {
        self.0.age
    }

    /// When the key becomes free if nothing else happens, counted from now. Compares two machines' clocks: a hint.
    pub fn retry_after(&self) -> Duration {
        self.0.retry_after
    }

    pub(crate) fn stored(&self) -> Option<&Stored> {
        match &self.0.result {
            FirstResult::Stored(stored, _) => Some(stored),
            _ => None,
        }
    }
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Known {
            site,
            state,
            holder,
            age,
            retry_after,
            result,
        } = &*self.0;
        if let FirstResult::Unavailable(why) = result {
            return write!(
                f,
                "{site} is already done (by {holder}, {age:.1?} ago), but its result cannot be given: {why}"
            );
        }
        match state {
            DuplicateState::Running if holder.is_empty() => write!(
                f,
                "{site} is already running (in a transaction that was open for all of the {age:.1?} that it was waited for)"
            ),
            DuplicateState::Running => write!(
                f,
                "{site} is already running (by {holder}, for {age:.1?}); \
                 its lease ends in {retry_after:.1?} unless it is renewed"
            ),
            DuplicateState::Done | DuplicateState::Failed => write!(
                f,
                "{site} is already done (by {holder}, {age:.1?} ago); \
                 the key is free in {retry_after:.1?}"
            ),
            DuplicateState::Unknown => write!(
                f,
                "{site} was already made (by {holder}, {age:.1?} ago); \
                 the key is free in {retry_after:.1?}"
            ),
        }
    }
}

/// What went wrong, and where.
#[derive(Debug)]
pub struct Failure(Box<Cause>);

#[derive(Debug)]
struct Cause {
    site: Site,
    what: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Failure {
    pub(crate) fn new(
        site: Site,
        what: impl Into<Cow<'static, str>>,
        source: Option<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let what = what.into();
        Self(Box::new(Cause { site, what, source }))
    }

    /// The name of the endpoint.
    pub fn endpoint(&self) -> &str {
        self.0.site.endpoint.as_str()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.site, self.0.what)
    }
}

/// An endpoint and the redacted key of one call of it.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) endpoint: Endpoint,
    pub(crate) fingerprint: Option<Fingerprint>,
}

impl Site {
    /// The site of a call that has no key (yet).
    pub(crate) fn without_key(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            fingerprint: None,
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call of `{}`", self.endpoint)?;
        match &self.fingerprint {
            Some(fingerprint) => write!(f, " with key {fingerprint:?}"),
            None => Ok(()),
        }
    }
}

/// An [`Idempotency`](crate::Idempotency) or a store that could not be set up.
pub struct SetupError {
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl SetupError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            source: None,
        }
    }

    #[cfg(any(
        feature = "mysql",
        feature = "postgres",
        feature = "redis",
        feature = "sqlite"
    ))]
    pub(crate) fn caused(what: impl Into<String>, source: StoreError) -> Self {
        Self {
            what: what.into(),
            source: Some(source.into()),
        }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Debug for SetupError {
    /// Reads as it should where `main` returns it: each mistake on a line, and the causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for SetupError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
impl Error {
    /// One of each variant.
    pub(crate) fn samples() -> [Self; 12] {
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
                retry_after: Duration::from_millis(28_500),
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
