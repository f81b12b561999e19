//! Bloom filters in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use super::shard::after;
use crate::store::answer::Hint;
use crate::store::filter::{BloomFilter, BloomStats, Bucket, Shape};
use crate::sync::{Mutex, MutexGuard};

/// The Bloom filters of a store, behind a separate lock.
///
/// The program decides their number and size, so they do not count as records.
#[derive(Default)]
pub(super) struct MemoryFilters(Mutex<HashMap<FilterName, VecDeque<Bits>>>);

/// The name of a filter. A filter with another shape is another filter.
#[derive(PartialEq, Eq, Hash)]
struct FilterName {
    key: String,
    shape: Shape,
}

/// One bucket, half a retention wide.
struct Bits {
    began: Instant,
    /// When the next bucket begins.
    ends: Instant,
    /// When its last member may be forgotten.
    expires: Instant,
    words: Vec<u64>,
    set: u64,
}

impl MemoryFilters {
    pub(super) fn insert(&self, filter: &BloomFilter, member: &[u8], now: Instant) -> Hint {
        let shape = Shape::for_filter(filter);
        let mut filters = self.lock_live(now);
        let key = filter.key.clone();
        let buckets = filters.entry(FilterName { key, shape }).or_default();
        let positions = shape.positions(member);
        let seen = buckets.iter().any(|bits| bits.have(positions.clone()));
        if let Some(current) = buckets.back_mut().filter(|bits| now < bits.ends) {
            current.set(positions);
        } else {
            let mut current = Bits::new(shape, filter.retention, now);
            current.set(positions);
            buckets.push_back(current);
        }
        if seen {
            Hint::PerhapsSeen
        } else {
            Hint::Unseen
        }
    }

    pub(super) fn stats(&self, filter: &BloomFilter, now: Instant) -> BloomStats {
        let shape = Shape::for_filter(filter);
        let key = filter.key.clone();
        let filters = self.lock_live(now);
        let buckets = filters
            .get(&FilterName { key, shape })
            .into_iter()
            .flatten();
        BloomStats::new(
            filter,
            buckets.map(|bits| Bucket {
                age: (now - bits.began).as_secs_f64() / (bits.ends - bits.began).as_secs_f64(),
                members: shape.members(bits.set),
                error_rate: shape.error_rate(bits.set),
            }),
        )
    }

    /// Locks the filters and removes expired buckets.
    fn lock_live(&self, now: Instant) -> MutexGuard<'_, HashMap<FilterName, VecDeque<Bits>>> {
        // After a panic, at worst one member is missing.
        let mut filters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        filters.retain(|_, buckets| {
            while buckets.pop_front_if(|bits| bits.expires <= now).is_some() {}
            !buckets.is_empty()
        });
        filters
    }
}

impl Bits {
    fn new(shape: Shape, retention: Duration, began: Instant) -> Self {
        let width = (retention / 2).max(Duration::from_millis(1));
        let ends = after(began, width);
        let words = shape.bits.div_ceil(u64::from(u64::BITS));
        Self {
            began,
            ends,
            expires: after(ends, retention.max(2 * width)),
            words: vec![0; usize::try_from(words).unwrap_or(usize::MAX)],
            set: 0,
        }
    }

    fn have(&self, mut positions: impl Iterator<Item = u64>) -> bool {
        positions.all(|position| {
            let (word, bit) = place(position);
            self.words[word] & bit != 0
        })
    }

    fn set(&mut self, positions: impl Iterator<Item = u64>) {
        for position in positions {
            let (word, bit) = place(position);
            self.set += u64::from(self.words[word] & bit == 0);
            self.words[word] |= bit;
        }
    }
}

/// The index of the word of a bit, and the bit in it.
fn place(position: u64) -> (usize, u64) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a filter has 2^32 bits at most, and so 2^26 words"
    )]
    let word = (position / u64::from(u64::BITS)) as usize;
    (word, 1 << (position % u64::from(u64::BITS)))
}
