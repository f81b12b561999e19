//! The contract between the protocol and whatever keeps the records.
//!
//! A store offers four operations, each on one key, each atomic. There is no unconditional write and
//! no look-then-put, so a race cannot be written with it. Values are opaque bytes; the store's own
//! clock decides what has expired. It may give hints of changes besides, which make waiting quicker.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// What the trait is written with: name it through here, and the versions agree.
pub use async_trait::async_trait;
/// What a record is: name it through here, and the versions agree.
pub use bytes::Bytes;

mod durability;
mod finding;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) mod sql;
pub(crate) mod url;

pub use self::durability::Durability;
pub use self::finding::{Finding, Level};

/// Keeps records under keys, changing them by compare-and-set only.
///
/// Every operation may be sent twice, because a reply may be lost: the second send changes nothing
/// that the first one did not, and never tells the caller that its own record is another's. (A
/// second [`remove`](Self::remove) answers [`Swap::Absent`].)
///
/// Keys are at most 512 bytes of UTF-8 without NUL. Times to live are at least one millisecond; a store that counts in coarser units rounds up.
/// Whatever is not known to live is absent: an expired record is never returned or compared with.
///
/// # Hints
///
/// A call that waits for a key asks for it again and again. A store that can tell it of a change
/// implements [`replace_and_tell`](Self::replace_and_tell), [`remove_and_tell`](Self::remove_and_tell)
/// and [`changed`](Self::changed); the others leave them out. A store that wraps another one passes
/// all three on, or the other one's hints are lost; [`durability`](Self::durability) and
/// [`examine`](Self::examine), too.
///
/// # A store of your own
///
/// The trait is written with [`async_trait`](macro@async_trait) and [`Bytes`]; [`idempotence::store`](crate::store) has
/// both, in the versions that fit. This is a whole store, on a map behind a mutex:
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use std::collections::HashMap;
/// use std::sync::{Mutex, MutexGuard, PoisonError};
/// use std::time::Duration;
///
/// use idempotence::store::{Bytes, Claim, Entry, Store, StoreError, Swap, async_trait};
/// use tokio::time::Instant;
///
/// #[derive(Debug, Default)]
/// struct MapStore(Mutex<HashMap<String, Record>>);
///
/// #[derive(Debug)]
/// struct Record {
///     value: Bytes,
///     ends: Instant,
/// }
///
/// impl Record {
///     fn new(value: &Bytes, ttl: Duration) -> Self {
///         Record { value: value.clone(), ends: Instant::now() + ttl }
///     }
/// }
///
/// impl MapStore {
///     /// The records, without the one of `key` if that has expired.
///     fn records(&self, key: &str) -> MutexGuard<'_, HashMap<String, Record>> {
///         let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
///         if records.get(key).is_some_and(|record| record.ends <= Instant::now()) {
///             records.remove(key);
///         }
///         records
///     }
/// }
///
/// #[async_trait]
/// impl Store for MapStore {
///     async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
///         let mut records = self.records(key);
///         match records.get(key) {
///             // Its own, from a try whose reply was lost: the time to live stays.
///             Some(record) if record.value == value => Ok(Claim::Claimed),
///             Some(record) => Ok(Claim::Taken(record.value.clone())),
///             None => {
///                 records.insert(key.to_owned(), Record::new(value, ttl));
///                 Ok(Claim::Claimed)
///             }
///         }
///     }
///
///     async fn replace(
///         &self,
///         key: &str,
///         expected: &Bytes,
///         value: &Bytes,
///         ttl: Duration,
///     ) -> Result<Swap, StoreError> {
///         let mut records = self.records(key);
///         match records.get_mut(key) {
///             None => Ok(Swap::Absent),
///             Some(record) if record.value == expected => {
///                 *record = Record::new(value, ttl);
///                 Ok(Swap::Done)
///             }
///             // Done already, by a try whose reply was lost.
///             Some(record) if record.value == value => Ok(Swap::Done),
///             Some(record) => Ok(Swap::Other(record.value.clone())),
///         }
///     }
///
///     async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
///         let mut records = self.records(key);
///         match records.get(key) {
///             None => Ok(Swap::Absent),
///             Some(record) if record.value == expected => {
///                 records.remove(key);
///                 Ok(Swap::Done)
///             }
///             Some(record) => Ok(Swap::Other(record.value.clone())),
///         }
///     }
///
///     async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
///         Ok(self.records(key).get(key).map(|record| Entry {
///             value: record.value.clone(),
///             ttl: Some(record.ends - Instant::now()),
///         }))
///     }
/// }
/// # #[cfg(feature = "testkit")]
/// # tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap().block_on(async {
/// #     let failures = idempotence::testkit::conformance::failures(async || MapStore::default()).await;
/// #     assert!(failures.is_empty(), "{failures:?}");
/// # });
/// ```
///
/// One macro call runs the conformance suite of the feature `testkit` against it:
/// `idempotence::testkit::conformance!(async { MapStore::default() });`
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

    /// Does what [`replace`](Self::replace) does, and tells those who listen by
    /// [`changed`](Self::changed), in the same round trip.
    ///
    /// The telling is a hint: it may fail unnoticed, and never changes the answer. By default this
    /// is [`replace`](Self::replace), and nobody is told.
    ///
    /// # Errors
    ///
    /// Those of [`replace`](Self::replace).
    async fn replace_and_tell(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.replace(key, expected, value, ttl).await
    }

    /// Does what [`remove`](Self::remove) does, and tells those who listen by
    /// [`changed`](Self::changed), in the same round trip.
    ///
    /// The telling is a hint: it may fail unnoticed, and never changes the answer. By default this
    /// is [`remove`](Self::remove), and nobody is told.
    ///
    /// # Errors
    ///
    /// Those of [`remove`](Self::remove).
    async fn remove_and_tell(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.remove(key, expected).await
    }

    /// Begins to listen for changes of what stands under `key`.
    ///
    /// When this returns, listening has begun: a change told after that is heard. `None`, which is
    /// the default, says that the store gives no hints, or cannot now.
    ///
    /// [`changed`](watch::Receiver::changed) of the receiver ends with each hint, and with an error
    /// when no more hints will come (a connection broke): then the caller has to ask by itself. No
    /// rule depends on a hint: it may be lost, late, or about nothing, and a record that expires
    /// gives none. Dropping the receiver ends the listening.
    async fn changed(&self, key: &str) -> Option<watch::Receiver<()>> {
        let _ = key;
        None
    }

    /// What has to fail until an acknowledged record is forgotten.
    ///
    /// By default the least there is: [`Durability::Process`].
    fn durability(&self) -> Durability {
        Durability::Process
    }

    /// Says what only the store knows of how it is set up, for
    /// [`Idempotency::doctor`](crate::Idempotency::doctor): what is fine, and what is not. By default
    /// nothing.
    ///
    /// Under `key` nothing stands, and the store may put there what it tries out; it is the doctor
    /// who has tried the operations of this trait, each within `deadline`. The answer holds no secrets: it is printed.
    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        let _ = (key, deadline);
        Vec::new()
    }
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

    async fn replace_and_tell(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        S::replace_and_tell(self, key, expected, value, ttl).await
    }

    async fn remove_and_tell(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        S::remove_and_tell(self, key, expected).await
    }

    async fn changed(&self, key: &str) -> Option<watch::Receiver<()>> {
        S::changed(self, key).await
    }

    fn durability(&self) -> Durability {
        S::durability(self)
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        S::examine(self, key, deadline).await
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
