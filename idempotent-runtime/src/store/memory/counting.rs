//! Counted keys in memory.

use std::time::Duration;

use tokio::time::Instant;

use super::shard::Shard;
use crate::error::store::StoreError;
use crate::record::count;
use crate::store::answer::Count;
use crate::store::key::Key;

impl Shard {
    /// Counts an attempt; `None` if there is no `room` for the record of a new window.
    pub(super) fn count(
        &mut self,
        key: &Key,
        attempt: u128,
        window: Duration,
        now: Instant,
        room: impl FnOnce() -> bool,
    ) -> Option<Result<Count, StoreError>> {
        let Some(entry) = self.get(key, now) else {
            self.claim(key, &count::first(attempt), window, now, room)?;
            return Some(Ok(Count {
                attempt: 1,
                remaining: window,
            }));
        };
        let remaining = entry.ttl.unwrap_or(window);
        let counted = count::next(&entry.value, attempt).map(|next| {
            if let Some(record) = next.record {
                // An exchange does not change the exact expiry. A rounded time to live would prolong the window each time.
                self.exchange(key, &entry.value, &record, now);
            }
            Count {
                attempt: next.attempt,
                remaining,
            }
        });
        Some(counted)
    }
}
