//! The error of a store.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// A store operation that failed.
///
/// Its [`Display`](fmt::Display) is one line, for operators: where it failed and why. The error of a call repeats only the
/// [reason](Self::why), because clients may see the error of a call. The rest is in [`source`](StdError::source).
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use std::io::{Error, ErrorKind};
///
/// use idempotence::{StoreError, StoreErrorKind};
///
/// let source = Error::from(ErrorKind::ConnectionRefused);
/// let error = StoreError::new(StoreErrorKind::NotApplied, source)
///     .reason("refused the connection")
///     .place("redis 10.0.0.5:6379");
/// assert_eq!(error.to_string(), "redis 10.0.0.5:6379 refused the connection");
/// assert_eq!(error.why(), "refused the connection");
///
/// let error = StoreError::new(StoreErrorKind::Unknown, "connection reset");
/// assert_eq!(error.to_string(), "the store gave no conclusive answer");
/// ```
pub struct StoreError(Box<StoreErrorParts>);

struct StoreErrorParts {
    kind: StoreErrorKind,
    reason: Option<Cow<'static, str>>,
    place: Option<Cow<'static, str>>,
    foreign_record: bool,
    source: Box<dyn StdError + Send + Sync>,
}

/// What is known about the operation that failed.
///
/// | the server says | the operation | what a call sees |
/// | --- | --- | --- |
/// | `TRYAGAIN`, `CLUSTERDOWN`, `LOADING`, `MASTERDOWN`, `READONLY`, `NOREPLICAS`, `MISCONF`, `BUSY`, connection refused | was not applied; on a cluster unknown | nothing, if the cause ends within the deadline; else `Unavailable`, and the body did not run |
/// | `NOSCRIPT` | was not applied | nothing: the script is sent again (`EVAL`) |
/// | `OOM` | was not applied | a new key: `Unavailable`; a duplicate: its answer. A result that does not fit: the key stays taken for the `ttl` |
/// | `NOAUTH`, `WRONGPASS`, `NOPERM`, `WRONGTYPE`, `CROSSSLOT`; `MOVED`, `ASK` with `redis://` | was not applied | `Misconfigured` at once (`WRONGTYPE`: `ForeignRecord`). A renewal and a result are tried until their time is over |
/// | nothing, a broken connection, anything else | unknown | the claim is sent again with the same owner; a result is sent again, and the key is never released instead |
/// | with `?replicas=n`: fewer replicas have the write | is stored, and may be lost | as above; in the end the claim is taken back, and the body does not run |
/// | PostgreSQL 40001, 40P01, 55P03, MySQL 1205, 1213, MariaDB 1020, `SQLITE_BUSY` | was not applied | a store sends it three times (SQLite twenty); then `Unavailable`. With `tx`: roll back, and run the transaction again |
/// | etcd: no leader, too many requests, a lost lease; DynamoDB: throttled, a transaction with the record | was not applied | nothing, if the cause ends within the deadline; else `Unavailable` |
/// | no such table, no permission, no such database | was not applied | `Misconfigured`; its source has the missing statements |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The store refused the operation before it changed anything. The operation may be sent again.
    NotApplied,
    /// There is no conclusive answer: the store applied the operation, will apply it, or never will.
    Unknown,
    /// The store has no room for new data, or takes no value of this length. It changed nothing.
    ///
    /// After a result that does not fit, the store is asked for an hour to note the success in a smaller record.
    Full,
    /// The store is not set up for the operation: wrong credentials, a missing permission, or a key of another
    /// program's type. Sending the operation again does not help.
    Misconfigured,
}

impl StoreErrorKind {
    /// The default reason of an error of this kind.
    const fn reason(self) -> &'static str {
        match self {
            Self::NotApplied => "refused the operation",
            Self::Unknown => "gave no conclusive answer",
            Self::Full => "is full",
            Self::Misconfigured => "is not set up for this operation",
        }
    }
}

impl StoreError {
    /// Makes an error of `kind`. `source` is the error of the store's client, or its text.
    pub fn new(kind: StoreErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Box::new(StoreErrorParts {
            kind,
            reason: None,
            place: None,
            foreign_record: false,
            source: source.into(),
        }))
    }

    /// Makes an error of `kind` of an error whose text a server has chosen. A long text, or one with control characters, would fill
    /// logs and the memory of each caller: only its escaped beginning stays.
    pub(crate) fn of_server(
        kind: StoreErrorKind,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        match excerpt(&*source) {
            Some(text) => Self::new(kind, text),
            None => Self::new(kind, source),
        }
    }

    /// Sets the reason: what the store did or is, as the rest of a sentence that begins with "the store". By default the reason
    /// depends on the kind.
    ///
    /// Clients may see it: it must be one line, without an address, a path, a statement or a secret.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.0.reason = Some(reason.into());
        self
    }

    /// Sets the place: the kind of store and its address, or its file. Only operators see it. It must not contain a password.
    #[must_use]
    pub fn place(mut self, place: impl Into<Cow<'static, str>>) -> Self {
        self.0.place = Some(place.into());
        self
    }

    /// An error of another kind with the same reason and place, for a store that knows more than the failed request says. This error is
    /// its source.
    #[must_use]
    pub fn with_kind(self, kind: StoreErrorKind) -> Self {
        let (reason, place) = (self.why().to_owned(), self.0.place.clone());
        let mut error = Self::new(kind, self).reason(reason);
        error.0.place = place;
        error
    }

    /// Marks an error whose cause is a value under the key that this crate did not write.
    pub(crate) fn foreign_record(mut self) -> Self {
        self.0.foreign_record = true;
        self
    }

    /// Whether the cause is a value under the key that this crate did not write.
    pub(crate) fn is_foreign_record(&self) -> bool {
        self.0.foreign_record
    }

    /// What the failure says about the operation.
    pub fn kind(&self) -> StoreErrorKind {
        self.0.kind
    }

    /// The reason: what was set with [`reason`](Self::reason), or the default of the kind.
    pub fn why(&self) -> &str {
        self.0.reason.as_deref().unwrap_or(self.0.kind.reason())
    }

    /// Where it failed: what was set with [`place`](Self::place).
    pub fn location(&self) -> Option<&str> {
        self.0.place.as_deref()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.location().unwrap_or("the store");
        write!(f, "{place} {}", self.why())
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoreErrorParts {
            kind,
            reason,
            place,
            source,
            ..
        } = &*self.0;
        let mut debug = f.debug_struct("StoreError");
        debug.field("kind", kind);
        if let Some(reason) = reason {
            debug.field("reason", reason);
        }
        if let Some(place) = place {
            debug.field("place", place);
        }
        debug.field("source", source).finish()
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0.source)
    }
}

/// The most characters of an error's text that are kept.
const LONGEST_TEXT: usize = 300;

/// The most bytes of the other parts of an error, which its `Debug` shows.
const LONGEST_DEBUG: usize = 4 * LONGEST_TEXT;

/// The escaped beginning of the text of an error. `None` if the error can stay as it is.
fn excerpt(error: &dyn StdError) -> Option<String> {
    let text = error.to_string();
    let end = text.char_indices().nth(LONGEST_TEXT).map(|(end, _)| end);
    let is_short = end.is_none() && format!("{error:?}").len() <= LONGEST_DEBUG;
    if is_short && !text.contains(char::is_control) {
        return None;
    }
    let mut excerpt = String::new();
    for char in text[..end.unwrap_or(text.len())].chars() {
        if char.is_control() {
            excerpt.extend(char.escape_default());
        } else {
            excerpt.push(char);
        }
    }
    if end.is_some() {
        excerpt.push('…');
    }
    Some(excerpt)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [StoreErrorKind; 4] = [
        StoreErrorKind::NotApplied,
        StoreErrorKind::Unknown,
        StoreErrorKind::Full,
        StoreErrorKind::Misconfigured,
    ];

    #[test]
    fn an_error_without_a_reason_has_the_reason_of_its_kind() {
        let texts = KINDS.map(|kind| StoreError::new(kind, "1.2.3.4").to_string());
        assert_eq!(
            texts,
            [
                "the store refused the operation",
                "the store gave no conclusive answer",
                "the store is full",
                "the store is not set up for this operation"
            ]
        );
    }

    #[test]
    fn reason_and_place_are_shown_and_returned() {
        for kind in KINDS {
            let error = StoreError::new(kind, "os error 111")
                .reason(String::from("refused the connection"))
                .place("redis 10.0.0.5:6379");
            assert_eq!(
                error.to_string(),
                "redis 10.0.0.5:6379 refused the connection"
            );
            assert_eq!(error.why(), "refused the connection");
            assert_eq!(error.location(), Some("redis 10.0.0.5:6379"));
            assert_eq!(error.kind(), kind);
        }
    }

    #[test]
    fn an_error_of_another_kind_keeps_its_reason_and_place() {
        let full = StoreError::new(StoreErrorKind::Full, "oom").place("redis 10.0.0.5:6379");
        let error = full.with_kind(StoreErrorKind::NotApplied);
        assert_eq!(error.kind(), StoreErrorKind::NotApplied);
        assert_eq!(error.to_string(), "redis 10.0.0.5:6379 is full");
        let source = error.source().and_then(|source| source.downcast_ref());
        assert_eq!(source.map(StoreError::kind), Some(StoreErrorKind::Full));
    }

    #[test]
    fn debug_has_every_part_once() {
        let error = StoreError::new(StoreErrorKind::Full, "oom").reason("is full of keys");
        assert_eq!(
            format!("{error:?}"),
            "StoreError { kind: Full, reason: \"is full of keys\", source: \"oom\" }"
        );
    }
}
