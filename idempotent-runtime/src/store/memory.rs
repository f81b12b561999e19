//! Records in the memory of this process: for tests, for one process, and as the model of a store.

mod counting;
mod filters;
mod listing;
mod several;
mod shard;

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use self::filters::MemoryFilters;
use self::shard::Shard;
use super::answer::{Claim, ClaimAll, ClaimAny, Count, Entry, Hint, Swap};
use super::contract::Store;
use super::filter::{BloomFilter, BloomStats};
use super::finding::{Finding, Level};
use super::key::Key;
use super::listing::{Cursor, Page};
use super::local::LocalStore;
use crate::error::store::{StoreError, StoreErrorKind};
use crate::sync::{AtomicUsize, Mutex, MutexGuard};

/// Stores records in the memory of this process. They are lost when the process ends.
///
/// A clone shares the records. The clock is [`tokio::time`], so with a paused clock records expire exactly when a test
/// advances it. Each new record removes a few expired records, so no call pays for many.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use std::time::Duration;
///
/// use idempotence::MemoryStore;
/// use idempotence::store::{Bytes, Claim, Store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = MemoryStore::new();
/// let (first, second) = (Bytes::from("first"), Bytes::from("second"));
/// let ttl = Duration::from_secs(30);
/// assert_eq!(store.claim("key", &first, ttl).await?, Claim::Claimed);
/// assert_eq!(store.claim("key", &second, ttl).await?, Claim::Taken(first));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    shards: Arc<Shards>,
    filters: Arc<MemoryFilters>,
}

impl MemoryStore {
    /// Makes an empty store without a limit on the number of records.
    pub fn new() -> Self {
        Self::with_capacity(usize::MAX)
    }

    /// Makes an empty store for at most `capacity` live records.
    ///
    /// A full store refuses a claim of a new key with [`StoreErrorKind::Full`]. It never drops a live record to make room. Bloom
    /// filters are not counted: each has the memory that its settings need.
    ///
    /// A key of a call with the option `fence` has a second record, with the last number. That record stays for a day after the last
    /// call, or for the `ttl` if that is longer, also when the key is free again. So count one record for each such key of a day,
    /// and one more for each call that runs.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            shards: Arc::new(Shards::new(capacity)),
            filters: Arc::default(),
        }
    }

    /// The number of live records.
    pub fn len(&self) -> usize {
        let now = Instant::now();
        let live = |shard: &Padded| lock(shard).live(now);
        self.shards.all.iter().map(live).sum()
    }

    /// Whether there is no live record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(
    clippy::missing_fields_in_debug,
    reason = "the text is about records only"
)]
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("MemoryStore");
        text.field("len", &self.len());
        if self.shards.capacity != usize::MAX {
            text.field("capacity", &self.shards.capacity);
        }
        text.finish()
    }
}

impl LocalStore for MemoryStore {
    fn claim_now(
        &self,
        key: &Key,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Result<Claim, StoreError> {
        self.shards.add(key, now, |shard| {
            shard.claim(key, value, ttl, now, || self.shards.reserve())
        })
    }

    fn replace_now(
        &self,
        key: &Key,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Result<Swap, StoreError> {
        Ok(self.shards.of(key).replace(key, expected, value, ttl, now))
    }

    fn remove_now(&self, key: &Key, expected: &Bytes, now: Instant) -> Result<Swap, StoreError> {
        let (swap, removed) = self.shards.of(key).remove(key, expected, now);
        self.shards.release(removed);
        Ok(swap)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.claim_now(&Key::new(key), value, ttl, Instant::now())
    }

    async fn claim_all(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAll, StoreError> {
        self.shards.claim_all(claims, ttl, Instant::now())
    }

    async fn claim_any(
        &self,
        claims: &[(&str, &Bytes)],
        ttl: Duration,
    ) -> Result<ClaimAny, StoreError> {
        self.shards.claim_any(claims, ttl, Instant::now())
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        self.replace_now(&Key::new(key), expected, value, ttl, Instant::now())
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        self.remove_now(&Key::new(key), expected, Instant::now())
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let key = Key::new(key);
        Ok(self.shards.of(&key).get(&key, Instant::now()))
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let (key, now) = (Key::new(key), Instant::now());
        Ok(self.shards.of(&key).exchange(&key, expected, value, now))
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        let (key, now) = (&Key::new(key), Instant::now());
        self.shards.add(key, now, |shard| {
            shard.count(key, attempt, window, now, || self.shards.reserve())
        })?
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        Ok(self.filters.insert(filter, member, Instant::now()))
    }

    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        Ok(Some(self.filters.stats(filter, Instant::now())))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        most: usize,
    ) -> Result<Option<Page>, StoreError> {
        Ok(Some(self.shards.list(prefix, after, most)))
    }

    fn local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }

    async fn examine(&self, _: &str, _: Duration) -> Vec<Finding> {
        let volatile = Finding::new(
            Level::Note,
            "records are in memory, and are lost when the process ends",
        );
        vec![volatile.advise(
            "use a store that processes share, unless a restarted process may forget its calls",
        )]
    }
}

/// More than the one record that is added, so that expired records cannot accumulate.
const SWEPT_PER_ADDITION: usize = 2;
/// The largest number of records that are removed from one shard under one lock.
const SWEPT_FOR_ROOM: usize = 64;
const SHARDS: usize = 32;

struct Shards {
    capacity: usize,
    /// The number of records in all shards, including expired records that are not swept yet. Stays 0 if there is no limit: one
    /// counter that every thread writes would cost more than the shards save.
    stored: AtomicUsize,
    all: [Padded; SHARDS],
}

/// A shard in its own cache line, so that threads in different shards do not slow each other.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl Shards {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            stored: AtomicUsize::new(0),
            all: std::array::from_fn(|_| Padded(Mutex::default())),
        }
    }

    /// The shard that holds `key`.
    fn of(&self, key: &Key) -> MutexGuard<'_, Shard> {
        lock(&self.all[place(key)])
    }

    /// Runs `add`, which may add a record under `key`. `add` returns `None` if there is no room for the record.
    fn add<T>(
        &self,
        key: &Key,
        now: Instant,
        mut add: impl FnMut(&mut Shard) -> Option<T>,
    ) -> Result<T, StoreError> {
        loop {
            let mut shard = self.of(key);
            self.sweep(&mut shard, now, SWEPT_PER_ADDITION);
            if let Some(added) = add(&mut shard) {
                return Ok(added);
            }
            drop(shard);
            self.make_room(now)?;
        }
    }

    /// Reserves room for one record; `false` if the store is full.
    fn reserve(&self) -> bool {
        let one_more = |stored| (stored < self.capacity).then_some(stored + 1);
        self.capacity == usize::MAX
            || self
                .stored
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
                .is_ok()
    }

    fn release(&self, removed: usize) {
        if removed > 0 && self.capacity != usize::MAX {
            self.stored.fetch_sub(removed, Ordering::Relaxed);
        }
    }

    fn sweep(&self, shard: &mut Shard, now: Instant, at_most: usize) -> usize {
        let swept = shard.sweep(now, at_most);
        self.release(swept);
        swept
    }

    /// Removes expired records, one shard at a time; an error if there are none.
    fn make_room(&self, now: Instant) -> Result<(), StoreError> {
        let sweep = |shard: &Padded| self.sweep(&mut lock(shard), now, SWEPT_FOR_ROOM);
        if self.all.iter().map(sweep).sum::<usize>() > 0 {
            return Ok(());
        }
        let reason = format!("is full: {} records are live", self.capacity);
        let error = StoreError::new(StoreErrorKind::Full, "no record has expired");
        Err(error.reason(reason).place("the memory store"))
    }
}

/// The place of the shard that holds `key`.
fn place(key: &Key) -> usize {
    // A middle byte of the hash, because the table inside the shard uses both ends.
    let [.., middle, _, _, _] = key.hash().to_le_bytes();
    usize::from(middle) % SHARDS
}

/// Locks a shard, also after a panic: at worst a record is missing from the order of expiry, so it is not swept.
fn lock(shard: &Padded) -> MutexGuard<'_, Shard> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}
