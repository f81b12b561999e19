//! The contenders of the benchmarks and the measurement.
//!
//! Each way to guard a function is implemented once per task ([`upload`], [`replay`], [`storm`]), and each store has its
//! own contenders ([`in_memory`], [`on_redis`], [`on_cluster`], [`on_etcd`], [`on_sql`]). The other [`mechanisms`] have a separate
//! module.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idempotence::Idempotency;
use md5::{Digest as _, Md5};
use peer::IdempotencyStore;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::by_hand::ByHand;
use crate::latency::Took;
use crate::upload::Clock;

mod by_hand;
pub mod cpu;
pub mod http;
pub mod in_memory;
pub mod latency;
mod limit;
pub mod mechanisms;
pub mod on_cluster;
pub mod on_etcd;
pub mod on_redis;
pub mod on_sql;
pub mod one_core;
pub mod plans;
mod relay;
pub mod replay;
pub mod rounds;
pub mod storm;
mod upload;

/// The name of a contender, and its calls.
pub type Lap<'a> = (&'static str, Run<'a>);

/// Makes a number of calls per task, or a number of storms.
pub type Run<'a> = Box<dyn Fn(u64) -> Took + 'a>;

/// The contenders that can do all tasks, on one store.
#[derive(Clone)]
struct Contenders<H, S> {
    attribute: Idempotency,
    by_hand: H,
    peer: Peer<S>,
}

/// `idempotent` 2.0, on its own store.
#[derive(Clone)]
struct Peer<S>(S);

impl<H: ByHand, S: IdempotencyStore + Clone> Contenders<H, S> {
    fn uploads<'a>(&self, runtime: &'a Runtime, tasks: u32, clock: Clock) -> Vec<Lap<'a>> {
        let (attribute, by_hand) = (self.attribute.clone(), self.by_hand.clone());
        vec![
            (ATTRIBUTE, upload::lap(runtime, tasks, clock, attribute)),
            (BY_HAND, upload::lap(runtime, tasks, clock, by_hand)),
            (PEER, upload::lap(runtime, tasks, clock, self.peer.clone())),
        ]
    }

    fn replays<'a>(&self, runtime: &'a Runtime, tasks: u32, size: usize) -> Vec<Lap<'a>> {
        vec![
            (
                ATTRIBUTE,
                replay::lap(runtime, tasks, size, &self.attribute),
            ),
            (BY_HAND, replay::lap(runtime, tasks, size, &self.by_hand)),
            (PEER, replay::lap(runtime, tasks, size, &self.peer)),
        ]
    }

    fn storms<'a>(&self, runtime: &'a Runtime, answer: storm::Answer) -> Vec<Lap<'a>> {
        let by_hand = storm::Together::new(self.by_hand.clone());
        vec![
            (
                ATTRIBUTE,
                storm::lap(runtime, answer, self.attribute.clone()),
            ),
            (BY_HAND, storm::lap(runtime, answer, by_hand)),
            (PEER, storm::lap(runtime, answer, self.peer.clone())),
        ]
    }
}

const ATTRIBUTE: &str = "attribute";
const BY_HAND: &str = "by hand";
const PEER: &str = "idempotent 2.0";
const IN_BACKGROUND: &str = "attribute, settle in background";
const LIMIT: &str = "the limit";

/// Spawns these futures as tasks. Returns the time from the first spawn to the last end, and the outputs.
fn timed<F>(runtime: &Runtime, tasks: impl Iterator<Item = F>) -> (Duration, Vec<F::Output>)
where
    F: Future<Output: Send> + Send + 'static,
{
    runtime.block_on(async {
        let start = Instant::now();
        let mut running = JoinSet::new();
        for task in tasks {
            running.spawn(task);
        }
        let outputs = running.join_all().await;
        (start.elapsed(), outputs)
    })
}

/// New arguments for each call of this process.
fn arguments() -> (u64, String) {
    static CALLS: AtomicU64 = AtomicU64::new(0);

    let user_id = CALLS.fetch_add(1, Ordering::Relaxed);
    (user_id, "9e107d9d372bb6826bd81d3542a419d6".to_owned())
}

/// The name of the guarded function. All guarded functions have names of this length.
const ENDPOINT: &str = "bench.upload";
/// The maximum time that a key is held.
const TTL: Duration = Duration::from_secs(30);
/// How long a result is stored for duplicates.
const KEPT: Duration = Duration::from_hours(1);

/// The key of handwritten code: as long as the key of the crate, from the same digest of the same parts.
fn key(separator: &str, user_id: u64, file_md5: &str) -> String {
    let digest = Md5::new()
        .chain_update(user_id.to_le_bytes())
        .chain_update(file_md5)
        .finalize();
    let mut key = String::with_capacity(64);
    key.push_str(ENDPOINT);
    key.push_str(separator);
    key.push_str(hex(&digest.into(), &mut [0; 32]));
    key
}

/// A random owner, as 32 characters.
fn owner() -> String {
    hex(&rand::random(), &mut [0; 32]).to_owned()
}

fn hex<'a>(bytes: &[u8; 16], hex: &'a mut [u8; 32]) -> &'a str {
    base16ct::lower::encode_str(bytes, hex).expect("two characters per byte")
}
