//! Large records, and the connection on which they are read.
//!
//! Replies come one after the other on a connection, and a megabyte takes milliseconds: who asks for many large results at once would
//! hold up all other calls of the handle, until they are refused. So a key whose record was large is asked for on another
//! connection, and only a few at a time: what was asked for is sent whole, also to those who gave up waiting for it.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use tokio::sync::{Semaphore, SemaphorePermit};

/// What a connection carries beside small records without being noticed.
const LARGE: usize = 16 * 1024;
/// Room for so many keys; more of them than that push each other out, and are found to be large once more.
const KEYS: usize = 1024;
/// So many large replies are under way at a time.
const AT_A_TIME: usize = 4;

pub(super) struct Large<C> {
    connection: C,
    turns: Semaphore,
    /// Digests of keys, each where its last digits say. They differ from process to process, so nobody can aim at a place.
    keys: Box<[AtomicU64]>,
    digest: RandomState,
}

/// Lets the next one ask when it is dropped.
pub(super) type Turn<'a> = SemaphorePermit<'a>;

impl<C: Clone> Large<C> {
    /// The connection may be one that connects when it is first used.
    pub(super) fn on(connection: C) -> Self {
        Self {
            connection,
            turns: Semaphore::new(AT_A_TIME),
            keys: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            digest: RandomState::default(),
        }
    }

    /// Whether the record of this key was large.
    pub(super) fn knows(&self, key: &str) -> bool {
        let (place, digest) = self.place(key);
        place.load(Ordering::Relaxed) == digest
    }

    /// The connection for such keys, when it is this one's turn. They come in the order in which they asked.
    pub(super) async fn turn(&self) -> (C, Turn<'_>) {
        let turn = self.turns.acquire().await;
        let turn = turn.expect("the turns are never closed");
        (self.connection.clone(), turn)
    }

    /// Keeps in mind how large the record of this key is.
    pub(super) fn note(&self, key: &str, bytes: usize) {
        let (place, digest) = self.place(key);
        if bytes >= LARGE {
            place.store(digest, Ordering::Relaxed);
        } else {
            let _ = place.compare_exchange(digest, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn place(&self, key: &str) -> (&AtomicU64, u64) {
        // Zero is nobody's.
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
        assert!(!large.knows("key"));
        large.note("key", LARGE - 1);
        assert!(!large.knows("key"));
        large.note("key", LARGE);
        assert!(large.knows("key") && !large.knows("other"));
        large.note("other", 0);
        assert!(large.knows("key"));
        large.note("key", 0);
        assert!(!large.knows("key"));
    }

    #[test]
    fn many_keys_take_the_room_of_few() {
        let large = Large::on(());
        let keys: Vec<_> = (0..100_000).map(|key| key.to_string()).collect();
        for key in &keys {
            large.note(key, LARGE);
        }
        let known = keys.iter().filter(|key| large.knows(key)).count();
        assert!(known > KEYS / 2 && known <= KEYS, "{known}");
    }

    #[tokio::test]
    async fn a_few_at_a_time_have_their_turn() {
        let large = Large::on(());
        let mut turns = Vec::new();
        for _ in 0..AT_A_TIME {
            turns.push(large.turn().await);
        }
        assert!(large.turn().now_or_never().is_none());
        turns.pop();
        assert!(large.turn().now_or_never().is_some());
    }
}
