//! Sends operations on large records over another connection.
//!
//! The replies on a connection are sequential, and a megabyte takes milliseconds. Many large results at once would delay all
//! other calls of the handle until these calls fail. So a key whose record was large is read on another connection, and only a
//! few such keys at a time. The server sends a whole reply even if its caller has given up.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::redis::Value;
use foldhash::fast::RandomState;
use tokio::sync::Semaphore;

use crate::client::connection_like::StoreClient;
use crate::send::direct::Direct;
use crate::send::layer::Layer;
use crate::send::op::{Op, Reply};

/// The size from which a record is large, in bytes. Smaller records do not delay others noticeably.
const LARGE: usize = 16 * 1024;
/// The number of keys that are remembered. If there are more keys, they replace each other. A replaced key is remembered again
/// when its record is read.
const KEYS: usize = 1024;
/// The largest number of large replies in flight.
const AT_A_TIME: usize = 4;

/// Sends operations on keys whose record was large.
pub(crate) struct Large<C> {
    connection: Direct<C>,
    permits: Semaphore,
    keys: LargeKeys,
}

impl<C> Large<C> {
    /// `connection` may connect when it is first used.
    pub(crate) fn new(connection: C) -> Self {
        Self {
            connection: Direct::new(connection),
            permits: Semaphore::new(AT_A_TIME),
            keys: LargeKeys::new(),
        }
    }

    /// Whether the record of this key was large.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.has(key)
    }

    /// Remembers whether the record of a key is large after this reply.
    pub(crate) fn note(&self, key: &str, was_large: bool, reply: &Reply) {
        self.keys.note(key, was_large, reply);
    }
}

impl<C: StoreClient> Layer for Large<C> {
    /// Sends the operation when fewer others than allowed are in flight, in the order of the calls.
    async fn run(&self, op: &Op<'_>) -> Reply {
        let permit = self.permits.acquire().await;
        let _permit = permit.expect("the semaphore is never closed");
        self.connection.run(op).await
    }
}

/// The keys whose records were large.
struct LargeKeys {
    /// Digests of keys, each at the index of its last digits. The seed is random, so a client cannot choose the index.
    digests: Box<[AtomicU64]>,
    /// Whether `digests` ever had an entry.
    any: AtomicBool,
    seed: RandomState,
}

impl LargeKeys {
    fn new() -> Self {
        Self {
            digests: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            any: AtomicBool::new(false),
            seed: RandomState::default(),
        }
    }

    fn has(&self, key: &str) -> bool {
        if !self.any.load(Ordering::Relaxed) {
            return false;
        }
        let (place, digest) = self.place(key);
        place.load(Ordering::Relaxed) == digest
    }

    /// Remembers whether the record of a key is large after this reply. Only a reply that is the whole record, that there is none, or that
    /// it was replaced changes it. `0` means that another record is stored, perhaps a large one.
    fn note(&self, key: &str, was_large: bool, reply: &Reply) {
        match reply {
            Ok(Value::BulkString(record)) if record.len() >= LARGE => {
                let (place, digest) = self.place(key);
                place.store(digest, Ordering::Relaxed);
                self.any.store(true, Ordering::Relaxed);
            }
            Ok(Value::BulkString(_) | Value::Int(1..) | Value::Nil) if was_large => {
                let (place, digest) = self.place(key);
                let _ = place.compare_exchange(digest, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn place(&self, key: &str) -> (&AtomicU64, u64) {
        // Zero means that the place is empty.
        let digest = self.seed.hash_one(key) | 1 << 63;
        let places = self.digests.len() as u64;
        let place = usize::try_from(digest % places).unwrap_or_default();
        (&self.digests[place], digest)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ::redis::aio::ConnectionLike;
    use ::redis::{Cmd, Pipeline, RedisFuture};
    use futures_util::FutureExt as _;
    use futures_util::future::pending;

    use super::*;

    fn note(keys: &LargeKeys, key: &str, bytes: usize) {
        let was_large = keys.has(key);
        keys.note(key, was_large, &Ok(Value::BulkString(vec![7; bytes])));
    }

    #[test]
    fn a_key_is_large_until_its_record_is_small() {
        let keys = LargeKeys::new();
        assert!(!keys.has("key"));
        note(&keys, "key", LARGE - 1);
        assert!(!keys.has("key"));
        note(&keys, "key", LARGE);
        assert!(keys.has("key") && !keys.has("other"));
        note(&keys, "other", 0);
        // A reply with something else than the record says nothing.
        keys.note("key", true, &Ok(Value::Array(Vec::new())));
        keys.note("key", true, &Ok(Value::Int(0)));
        assert!(keys.has("key"));
        note(&keys, "key", 0);
        assert!(!keys.has("key"));
        note(&keys, "key", LARGE);
        keys.note("key", true, &Ok(Value::Nil));
        assert!(!keys.has("key"));
    }

    #[test]
    fn many_keys_replace_each_other() {
        let large = LargeKeys::new();
        let keys: Vec<_> = (0..100_000).map(|key| key.to_string()).collect();
        let record = Ok(Value::BulkString(vec![7; LARGE]));
        for key in &keys {
            large.note(key, false, &record);
        }
        let known = keys.iter().filter(|key| large.has(key)).count();
        assert!(known > KEYS / 2 && known <= KEYS, "{known}");
    }

    #[tokio::test]
    async fn only_a_few_large_records_are_read_at_once() {
        let large = Large::new(Silent);
        let op = Op::command("GET", &["key"], &[]);
        let mut reads = Vec::new();
        for _ in 0..=AT_A_TIME {
            let mut read = Box::pin(large.run(&op));
            assert!(read.as_mut().now_or_never().is_none());
            reads.push(read);
        }
        assert_eq!(large.permits.available_permits(), 0);
        drop(reads.remove(0));
        drop(reads.pop());
        assert_eq!(large.permits.available_permits(), 1);
    }

    /// A server that never answers.
    #[derive(Clone)]
    pub(crate) struct Silent;

    impl ConnectionLike for Silent {
        fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
            pending().boxed()
        }

        fn req_packed_commands<'a>(
            &'a mut self,
            _: &'a Pipeline,
            _: usize,
            _: usize,
        ) -> RedisFuture<'a, Vec<Value>> {
            pending().boxed()
        }

        fn get_db(&self) -> i64 {
            0
        }
    }
}
