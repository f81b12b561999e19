//! The contract between the protocol and whatever keeps the records.
//!
//! A store offers four operations, each on one key, each atomic. There is no unconditional write and
//! no look-then-put, so a race cannot be written with it. Values are opaque bytes; the store's own
//! clock decides what has expired. It may give hints of changes besides, which make waiting quicker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// What the trait is written with: name it through here, and the versions agree.
pub use async_trait::async_trait;
/// What a record is: name it through here, and the versions agree.
pub use bytes::Bytes;

mod answer;
pub(crate) mod counting;
mod durability;
mod error;
pub(crate) mod filter;
mod finding;
#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
pub(crate) mod longest;
pub mod memory;
pub(crate) mod queue;
pub(crate) mod url;

pub use self::answer::{Claim, Count, Entry, Hint, Swap};
pub use self::durability::Durability;
pub use self::error::{StoreError, StoreErrorKind};
pub(crate) use self::filter::{ERROR_RATES, MOST_BITS, Shape};
pub use self::filter::{Fill, Filter};
pub use self::finding::{Finding, Level, Mechanism};

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
/// all three on, or the other one's hints are lost; [`durability`](Self::durability),
/// [`examine`](Self::examine) and [`longest_record`](Self::longest_record), too.
///
/// # Beyond the four
///
/// Tokens, counters, seen-sets and Bloom filters ask for more: [`exchange`](Self::exchange), [`count`](Self::count),
/// [`add`](Self::add), [`take_out`](Self::take_out), [`mark`](Self::mark) and [`fill`](Self::fill). Each has a default that is made
/// of the four; a store that can do better implements it, and one that wraps another passes all of them on.
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

    /// Puts `value` in the place of `expected`, byte for byte, for as long as that would have stood.
    ///
    /// The answers are those of [`replace`](Self::replace); what never expires is not ours, and not replaced. By default this is
    /// [`get`](Self::get) and then [`replace`](Self::replace) with what is left by then, so that the end may move by as much
    /// as one of the two is quicker than the other.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the value may have been put.
    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let asked = Instant::now();
        match self.get(key).await? {
            None => Ok(Swap::Absent),
            Some(Entry {
                value: standing,
                ttl: Some(ttl),
            }) if standing == expected => {
                // Without this each of many exchanges would add the time that it takes.
                let left = ttl.saturating_sub(asked.elapsed());
                if left < SHORTEST_TTL {
                    // To put it for the shortest time there is, again and again, would keep it for ever.
                    return Ok(Swap::Absent);
                }
                self.replace(key, expected, value, left).await
            }
            Some(entry) if entry.value == value => Ok(Swap::Done),
            Some(entry) => Ok(Swap::Other(entry.value)),
        }
    }

    /// Counts one more attempt under `key`. The first one begins a window of this length, and no other changes its end.
    ///
    /// `attempt` is the attempt's own, made anew for each: sent twice, it is counted once, and answered with the number that
    /// it has. That holds as long as fewer than 32 others were counted in between; after that it is counted once more.
    /// Increment and expiry are one atomic step, so nothing can stand there for ever.
    ///
    /// By default this is [`get`](Self::get), and then [`claim`](Self::claim) or [`exchange`](Self::exchange), until one of
    /// these succeeds: two round trips, and more while other processes count under the same key. Those of one process take turns.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the attempt may have been counted; [`StoreErrorKind::Misconfigured`] if
    /// something else than a count stands there, which is left alone.
    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        counting::count(self, key, attempt, window).await
    }

    /// Adds `member`, of at most 64 bytes, to a set if it is not there, for `retention` at least; it is then `owner`'s.
    ///
    /// [`Claim::Claimed`] is also said of what is there and `owner`'s: it was added by a try whose reply was lost.
    /// [`Claim::Taken`] names the owner of the member that is there. By default each member is a record of its own, under a key
    /// that begins with `set`.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the member may have been added.
    async fn add(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        self.claim(&member_key(set, member), owner, retention).await
    }

    /// Takes `member` out of a set if it is `owner`'s. `retention` is that of [`add`](Self::add).
    ///
    /// # Errors
    ///
    /// A [`StoreError`] whose kind says whether the member may have been taken out.
    async fn take_out(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        let _ = retention;
        self.remove(&member_key(set, member), owner).await
    }

    /// Marks `member` in a Bloom filter, and says whether it may have been marked before.
    ///
    /// By default nothing is marked, and everything was perhaps seen.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no answer; the member may be marked.
    async fn mark(&self, filter: &Filter, member: &[u8]) -> Result<Hint, StoreError> {
        let _ = (filter, member);
        Ok(Hint::PerhapsSeen)
    }

    /// Says how full a Bloom filter is; `None`, which is the default, if the store has none.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no answer.
    async fn fill(&self, filter: &Filter) -> Result<Option<Fill>, StoreError> {
        let _ = filter;
        Ok(None)
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

    /// Tells the store how long a record may be for a handle that reads it.
    ///
    /// A longer one is of no use to that handle, whatever is in it. So the store may cut a longer record off after `bytes` and
    /// one more, rather than hold, and send, all of what somebody else put under the key. A store that
    /// several handles have goes by the largest number that it was told, and by none before the first. By default it does not listen.
    fn longest_record(&self, bytes: usize) {
        let _ = bytes;
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

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        S::exchange(self, key, expected, value).await
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        S::count(self, key, attempt, window).await
    }

    async fn add(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Claim, StoreError> {
        S::add(self, set, member, owner, retention).await
    }

    async fn take_out(
        &self,
        set: &str,
        member: &[u8],
        owner: &Bytes,
        retention: Duration,
    ) -> Result<Swap, StoreError> {
        S::take_out(self, set, member, owner, retention).await
    }

    async fn mark(&self, filter: &Filter, member: &[u8]) -> Result<Hint, StoreError> {
        S::mark(self, filter, member).await
    }

    async fn fill(&self, filter: &Filter) -> Result<Option<Fill>, StoreError> {
        S::fill(self, filter).await
    }

    fn durability(&self) -> Durability {
        S::durability(self)
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        S::examine(self, key, deadline).await
    }

    fn longest_record(&self, bytes: usize) {
        S::longest_record(self, bytes);
    }
}

const SHORTEST_TTL: Duration = Duration::from_millis(1);

fn member_key(set: &str, member: &[u8]) -> String {
    use std::fmt::Write;

    let mut key = String::with_capacity(set.len() + 1 + 2 * member.len());
    key.push_str(set);
    key.push(':');
    for byte in member {
        // Writing to a string does not fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}
