//! How much of a record a store reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The longest record that the handles of a store read. A clone shares it.
#[derive(Debug, Clone, Default)]
pub struct Longest(Arc<AtomicUsize>);

impl Longest {
    /// Allows records of `bytes` bytes; never lowers an earlier limit.
    pub fn allow(&self, bytes: usize) {
        self.0.fetch_max(bytes, Ordering::Relaxed);
    }

    /// How many bytes of a record to read: one more than allowed, so that the handle recognises a longer record. `None`: all.
    pub fn to_read(&self) -> Option<usize> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            longest => longest.checked_add(1),
        }
    }
}
