//! Large records, and the connection on which they are read.
//!
//! Replies come one after the other on a connection, and a megabyte takes milliseconds: who asks for many large results at once would
//! hold up all other calls of the handle, until they are refused. So a key whose record was large is asked for on another connection.
//! There replays hold up each other only.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;

/// What a connection carries beside small records without being noticed.
const LARGE: usize = 16 * 1024;
/// Room for so many keys; more of them than that push each other out, and are found to be large once more.
const KEYS: usize = 1024;

pub(super) struct Large<C> {
    connection: C,
    /// Digests of keys, each where its last digits say. They differ from process to process, so nobody can aim at a place.
    keys: Box<[AtomicU64]>,
    digest: RandomState,
}

impl<C> Large<C> {
    /// The connection may be one that connects when it is first used.
    pub(super) fn on(connection: C) -> Self {
        Self {
            connection,
            keys: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            digest: RandomState::default(),
        }
    }

    /// The connection for this key, if its record was large.
    pub(super) fn connection(&self, key: &str) -> Option<&C> {
        let (place, digest) = self.place(key);
        (place.load(Ordering::Relaxed) == digest).then_some(&self.connection)
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
    use super::*;

    #[test]
    fn a_key_is_large_until_its_record_is_small() {
        let large = Large::on("another connection");
        assert_eq!(large.connection("key"), None);
        large.note("key", LARGE - 1);
        assert_eq!(large.connection("key"), None);
        large.note("key", LARGE);
        assert_eq!(large.connection("key"), Some(&"another connection"));
        assert_eq!(large.connection("other"), None);
        large.note("other", 0);
        assert!(large.connection("key").is_some());
        large.note("key", 0);
        assert_eq!(large.connection("key"), None);
    }

    #[test]
    fn many_keys_take_the_room_of_few() {
        let large = Large::on(());
        let keys: Vec<_> = (0..100_000).map(|key| key.to_string()).collect();
        for key in &keys {
            large.note(key, LARGE);
        }
        let known = keys.iter().filter(|key| large.connection(key).is_some());
        let known = known.count();
        assert!(known > KEYS / 2 && known <= KEYS, "{known}");
    }
}
