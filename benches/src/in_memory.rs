//! Contenders that keep keys in the memory of the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use idempotence::{Idempotency, MemoryStore};
use peer::{ClaimOutcome, IdempotencyKey, IdempotencyStore as _};
use tokio::runtime::Runtime;

use crate::{Contender, ENDPOINT, Lap, TTL, key, lap};

/// Where the one task runs. The peer's store is a task of its own: on the caller's thread it answers
/// soonest, but the usual runtime has more threads than one.
pub fn runtimes() -> [(&'static str, Runtime); 2] {
    let mut one_thread = tokio::runtime::Builder::new_current_thread();
    let one_thread = one_thread.enable_time().build();
    [("one thread", one_thread), ("all cores", Runtime::new())]
        .map(|(name, runtime)| (name, runtime.expect("a runtime")))
}

/// All contenders, on one task.
pub fn laps(runtime: &Runtime) -> Vec<Lap<'_>> {
    let peer = runtime.block_on(async { peer::memory::MemoryStore::builder().try_build() });
    vec![
        lap(
            "attribute",
            runtime,
            1,
            Idempotency::new(MemoryStore::new()),
        ),
        lap("by hand", runtime, 1, ByHand::default()),
        lap("idempotent 2.0", runtime, 1, Peer(peer.expect("a store"))),
    ]
}

/// The least that is correct: a map of owners under one lock, the owner checked at the end.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<HashMap<String, Record>>>);

struct Record {
    owner: u128,
    expires: Instant,
}

impl Contender for ByHand {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = key(":", user_id, &file_md5);
        let owner = rand::random();
        assert!(self.claim(&key, owner), "a free key");
        let outcome = file_md5.len();
        assert!(self.release(&key, owner), "the own key");
        outcome
    }
}

impl ByHand {
    fn claim(&self, key: &str, owner: u128) -> bool {
        let now = Instant::now();
        let mut records = self.0.lock().expect("no panic");
        if records.get(key).is_some_and(|record| now < record.expires) {
            return false;
        }
        let expires = now + TTL;
        records.insert(key.to_owned(), Record { owner, expires });
        true
    }

    fn release(&self, key: &str, owner: u128) -> bool {
        let mut records = self.0.lock().expect("no panic");
        let own = records.get(key).is_some_and(|record| record.owner == owner);
        own && records.remove(key).is_some()
    }
}

#[derive(Clone)]
struct Peer(peer::memory::MemoryStore);

impl Contender for Peer {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = IdempotencyKey::new(key(".", user_id, &file_md5)).expect("a key");
        let claim = self.0.claim(&key, TTL).fingerprint(ENDPOINT, &[]);
        let ClaimOutcome::Claimed(guard) = claim.try_insert().await.expect("an answer") else {
            panic!("the key is taken");
        };
        let outcome = file_md5.len();
        let removed = self.0.remove(&key, guard.fencing_token()).await;
        removed.expect("an answer");
        outcome
    }
}
