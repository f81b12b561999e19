//! The contract between the protocol and whatever keeps the records.
//!
//! A store offers four operations, each on one key, each atomic. There is no unconditional write and
//! no look-then-put, so a race cannot be written with it. Values are opaque bytes; the store's own
//! clock decides what has expired.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

/// Keeps records under keys, changing them by compare-and-set only.
///
/// Every operation may be sent twice, because a reply may be lost: the second send changes nothing
/// that the first one did not, and never tells the caller that its own record is another's. (A
/// second [`remove`](Self::remove) answers [`Swap::Absent`].)
///
/// Keys are at most 512 bytes of UTF-8 without NUL. Times to live are at least one millisecond; a store that counts in coarser units rounds up.
/// Whatever is not known to live is absent: an expired record is never returned or compared with.
///
/// Run the conformance suite in `testkit` (feature `testkit`) against an implementation of your own.
///
/// # Cancellation
///
/// A dropped future leaves the operation either applied or not, never half.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Puts `value` under `key` for `ttl` if nothing lives there.
    ///
    /// A stored value equal to `value` is the caller's own, from a try whose reply was lost: that is
    /// [`Claim::Claimed`] too, and its time to live is left as it is.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been put.
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError>;

    /// Puts `value` under `key` for `ttl` if `expected` stands there, byte for byte.
    ///
    /// When both are equal, only the time to live is set (a store without room for data accepts
    /// that). When `value` already stands there, nothing is changed and the answer is
    /// [`Swap::Done`].
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been put.
    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError>;

    /// Removes what stands under `key` if that is `expected`, byte for byte.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been removed.
    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError>;

    /// Reads what stands under `key` and how long it will.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no answer.
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError>;
}

#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        S::claim(self, key, value, ttl).await
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        S::replace(self, key, expected, value, ttl).await
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        S::remove(self, key, expected).await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        S::get(self, key).await
    }
}

/// The answer to [`Store::claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The value now stands there (or stood there already, put by this very call).
    Claimed,
    /// Another value stands there.
    Taken(Bytes),
}

/// The answer to [`Store::replace`] and [`Store::remove`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// The change is made.
    Done,
    /// Nothing stands there; nothing was changed.
    Absent,
    /// Another value stands there; nothing was changed.
    Other(Bytes),
}

/// What stands under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The stored bytes.
    pub value: Bytes,
    /// How long it will stand from now on; `None` if it never expires (it is not ours, then).
    pub ttl: Option<Duration>,
}

/// A store operation that failed.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Box<dyn StdError + Send + Sync>,
}

/// What a failure says about the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The operation was refused before it changed anything; it may be sent again.
    NotApplied,
    /// There is no conclusive answer: the operation was applied, or will be, or never will.
    Unknown,
    /// The store has no room for new data; nothing was changed.
    Full,
    /// The store cannot serve this as it is set up (credentials, permissions, a key of another
    /// program's type); sending again will not help.
    Misconfigured,
}

impl StoreError {
    /// Makes an error of `kind`; `source` says what happened, in the words of the store's client.
    pub fn new(kind: StoreErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }

    /// What the failure says about the operation.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::NotApplied => "the store refused the operation",
            StoreErrorKind::Unknown => "the store gave no conclusive answer",
            StoreErrorKind::Full => "the store is full",
            StoreErrorKind::Misconfigured => "the store is not set up for this",
        })
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}
