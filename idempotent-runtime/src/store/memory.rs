//! Records in the memory of this process: for tests, for one machine, and as the model of a store.

mod counting;
mod filters;
mod shard;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use foldhash::fast::RandomState;
use tokio::time::Instant;

use self::filters::Filters;
use self::shard::Shard;
use super::answer::{Claim, Count, Entry, Hint, Swap};
use super::contract::Store;
use super::filter::{BloomFilter, BloomStats};
use super::finding::{Finding, Level};
use crate::error::store::{StoreError, StoreErrorKind};
use crate::sync::{AtomicUsize, Mutex, MutexGuard};

/// Keeps records in the memory of this process; they end with it.
///
/// A clone shares the records. Time is [`tokio::time`], so a paused clock expires records exactly
/// when it is advanced. Expired records are swept a few at a time by the operations that follow, so
/// no single call pays for many.
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
    filters: Arc<Filters>,
}

impl MemoryStore {
    /// Makes an empty store that takes as many records as there is memory for.
    pub fn new() -> Self {
        Self::with_capacity(usize::MAX)
    }

    /// Makes an empty store that holds at most `capacity` live records.
    ///
    /// When that many live, a claim of a new key is refused with [`StoreErrorKind::Full`]; a live
    /// record is never dropped to make room. Bloom filters do not count: each has the memory that its settings ask for.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            shards: Arc::new(Shards::new(capacity)),
            filters: Arc::default(),
        }
    }

    /// How many records live.
    pub fn len(&self) -> usize {
        let now = Instant::now();
        let live = |shard: &Padded| lock(shard).live(now);
        self.shards.all.iter().map(live).sum()
    }

    /// Whether no record lives.
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
    reason = "it is records that it tells of"
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

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        loop {
            let now = Instant::now();
            let mut shard = self.shards.of(key);
            self.shards.sweep(&mut shard, now, SWEPT_PER_OPERATION);
            let claim = shard.claim(key, value, ttl, now, || self.shards.reserve());
            drop(shard);
            if let Some(claim) = claim {
                return Ok(claim);
            }
            self.shards.make_room(now)?;
        }
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        let now = Instant::now();
        let mut shard = self.shards.of(key);
        self.shards.sweep(&mut shard, now, SWEPT_PER_OPERATION);
        Ok(shard.replace(key, expected, value, ttl, now))
    }

    async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
        let now = Instant::now();
        let mut shard = self.shards.of(key);
        let (swap, removed) = shard.remove(key, expected, now);
        self.shards.give_back(removed);
        self.shards.sweep(&mut shard, now, SWEPT_PER_OPERATION);
        Ok(swap)
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.shards.of(key).get(key, Instant::now()))
    }

    async fn exchange(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
    ) -> Result<Swap, StoreError> {
        let now = Instant::now();
        let mut shard = self.shards.of(key);
        self.shards.sweep(&mut shard, now, SWEPT_PER_OPERATION);
        Ok(shard.exchange(key, expected, value, now))
    }

    async fn count(&self, key: &str, attempt: u128, window: Duration) -> Result<Count, StoreError> {
        loop {
            let now = Instant::now();
            let mut shard = self.shards.of(key);
            self.shards.sweep(&mut shard, now, SWEPT_PER_OPERATION);
            let count = shard.count(key, attempt, window, now, || self.shards.reserve());
            drop(shard);
            if let Some(count) = count {
                return count;
            }
            self.shards.make_room(now)?;
        }
    }

    async fn bloom_insert(&self, filter: &BloomFilter, member: &[u8]) -> Result<Hint, StoreError> {
        Ok(self.filters.insert(filter, member, Instant::now()))
    }

    async fn bloom_stats(&self, filter: &BloomFilter) -> Result<Option<BloomStats>, StoreError> {
        Ok(Some(self.filters.stats(filter, Instant::now())))
    }

    async fn examine(&self, _: &str, _: Duration) -> Vec<Finding> {
        let dies = Finding::new(
            Level::Note,
            "records are in memory, and die with the process",
        );
        vec![
            dies.advise(
                "use a store that processes share, unless one that is restarted may forget",
            ),
        ]
    }
}

/// More than the one record that an operation can add, so that the expired ones cannot pile up.
const SWEPT_PER_OPERATION: usize = 2;
/// How many records are reclaimed in one shard before its lock is let go.
const SWEPT_FOR_ROOM: usize = 64;
const SHARDS: usize = 32;

struct Shards {
    seed: RandomState,
    capacity: usize,
    /// Records in all shards, the expired ones that were not swept included. Not kept when there is
    /// no limit: one counter that every thread writes costs more than the shards save.
    held: AtomicUsize,
    all: [Padded; SHARDS],
}

/// Has a cache line of its own, so that threads in different shards do not slow each other.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl Shards {
    fn new(capacity: usize) -> Self {
        let seed = RandomState::default();
        Self {
            capacity,
            held: AtomicUsize::new(0),
            all: std::array::from_fn(|_| Padded(Mutex::new(Shard::new(seed.clone())))),
            seed,
        }
    }

    /// The shard that holds `key`.
    fn of(&self, key: &str) -> MutexGuard<'_, Shard> {
        // From the middle: the map inside the shard uses both ends.
        let [.., middle, _, _, _] = self.seed.hash_one(key).to_le_bytes();
        lock(&self.all[usize::from(middle) % SHARDS])
    }

    /// Takes the place of one more record, if there is one.
    fn reserve(&self) -> bool {
        let one_more = |held| (held < self.capacity).then_some(held + 1);
        self.capacity == usize::MAX
            || self
                .held
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
                .is_ok()
    }

    fn give_back(&self, removed: usize) {
        if removed > 0 && self.capacity != usize::MAX {
            self.held.fetch_sub(removed, Ordering::Relaxed);
        }
    }

    fn sweep(&self, shard: &mut Shard, now: Instant, at_most: usize) -> usize {
        let swept = shard.sweep(now, at_most);
        self.give_back(swept);
        swept
    }

    /// Reclaims expired records, one shard at a time; an error if there are none.
    fn make_room(&self, now: Instant) -> Result<(), StoreError> {
        let sweep = |shard: &Padded| self.sweep(&mut lock(shard), now, SWEPT_FOR_ROOM);
        if self.all.iter().map(sweep).sum::<usize>() > 0 {
            return Ok(());
        }
        let full = format!("all {} records live", self.capacity);
        Err(StoreError::new(StoreErrorKind::Full, full))
    }
}

/// A panic in an operation cannot leave a shard half changed in a way that matters: at worst a
/// record is not in the order of expiry, and then it is only not swept.
fn lock(shard: &Padded) -> MutexGuard<'_, Shard> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}
