//! How often operations went in batches. Tests that rely on batches fail if there were none.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The batches of this process, of at least two operations each, since it started.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Batches that were sent.
    pub batches: u64,
    /// The operations of these batches.
    pub operations: u64,
    /// Batches whose request failed, or whose callers all stopped waiting before the answer.
    pub broken: u64,
}

static BATCHES: AtomicU64 = AtomicU64::new(0);
static OPERATIONS: AtomicU64 = AtomicU64::new(0);
static BROKEN: AtomicU64 = AtomicU64::new(0);

/// Returns what was counted so far.
#[doc(hidden)]
pub fn batch_counts() -> BatchCounts {
    BatchCounts {
        batches: BATCHES.load(Relaxed),
        operations: OPERATIONS.load(Relaxed),
        broken: BROKEN.load(Relaxed),
    }
}

impl BatchCounts {
    /// Counts a batch that is sent.
    pub fn count_sent(operations: usize) {
        if operations > 1 {
            BATCHES.fetch_add(1, Relaxed);
            OPERATIONS.fetch_add(operations as u64, Relaxed);
        }
    }

    /// Counts a batch that has failed, or whose callers have all stopped waiting.
    pub fn count_broken(operations: usize) {
        if operations > 1 {
            BROKEN.fetch_add(1, Relaxed);
        }
    }
}
