//! Contenders in the memory of the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use idempotence::{Idempotency, MemoryStore};
use tokio::runtime::Runtime;

use crate::by_hand::{ByHand, Claim};
use crate::replay::Receipt;
use crate::storm::Answer;
use crate::upload::Clock;
use crate::{Contenders, KEPT, Lap, Peer, TTL};

/// The runtimes of the tasks. The store of the peer is a task: it answers fastest on the thread of the
/// caller, but most applications use several threads.
pub fn runtimes() -> [(&'static str, Runtime); 2] {
    let mut one_thread = tokio::runtime::Builder::new_current_thread();
    let one_thread = one_thread.enable_time().build();
    [("one thread", one_thread), ("all cores", Runtime::new())]
        .map(|(name, runtime)| (name, runtime.expect("a runtime")))
}

/// First calls, from one task.
pub fn laps(runtime: &Runtime) -> Vec<Lap<'_>> {
    contenders(runtime).uploads(runtime, 1, Clock::Lap)
}

/// Duplicates that get a result of `size` bytes of JSON, from `tasks` tasks.
pub fn replays(runtime: &Runtime, tasks: u32, size: usize) -> Vec<Lap<'_>> {
    contenders(runtime).replays(runtime, tasks, size)
}

/// A thousand concurrent equal calls.
pub fn storms(runtime: &Runtime, answer: Answer) -> Vec<Lap<'_>> {
    contenders(runtime).storms(runtime, answer)
}

fn contenders(runtime: &Runtime) -> Contenders<Map, peer::memory::MemoryStore> {
    let peer = runtime.block_on(async { peer::memory::MemoryStore::builder().try_build() });
    Contenders {
        attribute: Idempotency::new(MemoryStore::new()),
        by_hand: Map::default(),
        peer: Peer(peer.expect("a store")),
    }
}

/// A map of owners and results under one lock, the owner checked at the end.
#[derive(Clone, Default)]
struct Map(Arc<Mutex<HashMap<String, Record>>>);

struct Record {
    owner: u128,
    expires: Instant,
    /// The JSON of the result, if the call is done.
    result: Option<Arc<[u8]>>,
}

impl ByHand for Map {
    type Owner = u128;

    async fn claim(&self, key: &str) -> Claim<u128> {
        match self.put(key, rand::random()) {
            Ok(owner) => Claim::Won(owner),
            Err(None) => Claim::Running,
            Err(Some(result)) => Claim::Done(Receipt::from_json(&result)),
        }
    }

    async fn release(&self, key: &str, owner: u128) {
        let mut records = self.0.lock().expect("no panic");
        let own = records.get(key).is_some_and(|record| record.owner == owner);
        assert!(
            own && records.remove(key).is_some(),
            "the caller owns the key"
        );
    }

    async fn complete(&self, key: &str, owner: u128, receipt: &Receipt) {
        let result = Some(receipt.to_json().into());
        let mut records = self.0.lock().expect("no panic");
        let own = records
            .get_mut(key)
            .filter(|record| record.owner == owner && record.result.is_none());
        *own.expect("the caller owns the key") = Record {
            owner,
            expires: Instant::now() + KEPT,
            result,
        };
    }
}

impl Map {
    /// Stores the owner. `Err` is the result of another call, or `None` while it runs.
    fn put(&self, key: &str, owner: u128) -> Result<u128, Option<Arc<[u8]>>> {
        let now = Instant::now();
        let mut records = self.0.lock().expect("no panic");
        if let Some(record) = records.get(key).filter(|record| now < record.expires) {
            return Err(record.result.clone());
        }
        let record = Record {
            owner,
            expires: now + TTL,
            result: None,
        };
        records.insert(key.to_owned(), record);
        Ok(owner)
    }
}
