//! Counted keys in memory.

use std::time::Duration;

use tokio::time::Instant;

use super::shard::Shard;
use crate::error::store::StoreError;
use crate::record::count;
use crate::store::answer::Count;

impl Shard {
    /// `None` if a window could begin but there is no `room` for one more record.
    pub(super) fn count(
        &mut self,
        key: &str,
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
                // Not for what remains: less than a millisecond would become one, each time.
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
