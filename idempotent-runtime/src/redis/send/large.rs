//! The connection for large records.
//!
//! The replies on a connection are sequential, and a megabyte takes milliseconds. Many large results at once would delay all
//! other calls of the handle until these calls fail. So a key whose record was large is read on another connection, and only a
//! few such keys at a time. The server sends a whole reply even if its caller has given up.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The size from which a record is large, in bytes. Smaller records do not delay others noticeably.
const LARGE: usize = 16 * 1024;
/// The number of keys that are remembered. If there are more keys, they replace each other. A replaced key is remembered again
/// when its record is read.
const KEYS: usize = 1024;
/// The largest number of large replies in flight.
const AT_A_TIME: usize = 4;

pub(crate) struct Large<C> {
    connection: C,
    turns: Semaphore,
    /// Digests of keys, each at the index of its last digits. The seed is random, so a client cannot choose the index.
    keys: Box<[AtomicU64]>,
    /// Whether `keys` ever had an entry.
    any: AtomicBool,
    digest: RandomState,
}

/// A turn on the connection. Dropping it starts the next turn.
pub(crate) type Turn<'a> = SemaphorePermit<'a>;

impl<C: Clone> Large<C> {
    /// `connection` may connect when it is first used.
    pub(crate) fn on(connection: C) -> Self {
        Self {
            connection,
            turns: Semaphore::new(AT_A_TIME),
            keys: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            any: AtomicBool::new(false),
            digest: RandomState::default(),
        }
    }

    /// Whether the record of this key was large.
    pub(crate) fn was_large(&self, key: &str) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let (place, digest) = self.place(key);
        place.load(Ordering::Relaxed) == digest
    }

    /// Waits for a turn on the connection. Turns come in the order of the calls.
    pub(crate) async fn wait_turn(&self) -> (C, Turn<'_>) {
        let turn = self.turns.acquire().await;
        let turn = turn.expect("the turns are never closed");
        (self.connection.clone(), turn)
    }

    /// Remembers whether the record of this key is large.
    pub(crate) fn note(&self, key: &str, bytes: usize) {
        if bytes >= LARGE {
            let (place, digest) = self.place(key);
            place.store(digest, Ordering::Relaxed);
            self.any.store(true, Ordering::Relaxed);
        } else if self.was_large(key) {
            let (place, digest) = self.place(key);
            let _ = place.compare_exchange(digest, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn place(&self, key: &str) -> (&AtomicU64, u64) {
        // Zero means that the place is empty.
        let digest = self.digest.hash_one(key) | 1 << 63;
        let places = self.keys.len() as u64;
        let place = usize::try_from(digest % places).unwrap_or_default();
        (&self.keys[place], digest)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_key_is_large_until_its_record_is_small() {
        let large = Large::on(());
        assert!(!large.was_large("key"));
        large.note("key", LARGE - 1);
        assert!(!large.was_large("key"));
        large.note("key", LARGE);
        assert!(large.was_large("key") && !large.was_large("other"));
        large.note("other", 0);
        assert!(large.was_large("key"));
        large.note("key", 0);
        assert!(!large.was_large("key"));
    }

    #[test]
    fn many_keys_replace_each_other() {
        let large = Large::on(());
        let keys: Vec<_> = (0..100_000).map(|key| key.to_string()).collect();
        for key in &keys {
            large.note(key, LARGE);
        }
        let known = keys.iter().filter(|key| large.was_large(key)).count();
        assert!(known > KEYS / 2 && known <= KEYS, "{known}");
    }

    #[tokio::test]
    async fn only_a_few_turns_run_at_once() {
        let large = Large::on(());
        let mut turns = Vec::new();
        for _ in 0..AT_A_TIME {
            turns.push(large.wait_turn().await);
        }
        assert!(large.wait_turn().now_or_never().is_none());
        turns.pop();
        assert!(large.wait_turn().now_or_never().is_some());
    }
}
