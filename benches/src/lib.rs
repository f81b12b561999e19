//! What the benchmarks compare, and how they measure it.
//!
//! Every contender guards the same trivial body: take the key of `(user_id, file_md5)`, run, give it
//! back. Each call has a key of its own, so none is refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idempotence::{Error, Idempotency, idempotent};
use md5::{Digest as _, Md5};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

pub mod in_memory;
pub mod on_redis;

/// One way to guard a function. A clone works on the same store and connection.
pub trait Contender: Clone + Send + Sync + 'static {
    /// Guards one run of the body: claim, body, release.
    fn upload(&self, user_id: u64, file_md5: String) -> impl Future<Output = usize> + Send;
}

/// The attribute, on whatever store the handle has.
impl Contender for Idempotency {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        #[idempotent(
            key = "user_id, file_md5",
            ttl = "30s",
            release = true,
            name = "bench.upload",
            using = idempotency
        )]
        async fn upload(
            idempotency: &Idempotency,
            user_id: u64,
            file_md5: String,
        ) -> Result<usize, Error> {
            Ok(file_md5.len())
        }

        upload(self, user_id, file_md5).await.expect("a free key")
    }
}

/// The name of a contender, and a function that makes so many calls per task and says how long that took.
pub type Lap<'a> = (&'static str, Box<dyn Fn(u64) -> Duration + 'a>);

/// Calls from `tasks` spawned tasks, each in a loop.
pub fn lap<'a>(
    name: &'static str,
    runtime: &'a Runtime,
    tasks: u32,
    contender: impl Contender,
) -> Lap<'a> {
    let lap = move |calls| {
        runtime.block_on(async {
            let start = Instant::now();
            let mut running = JoinSet::new();
            for _ in 0..tasks {
                running.spawn(in_a_loop(contender.clone(), calls));
            }
            running.join_all().await;
            start.elapsed()
        })
    };
    (name, Box::new(lap))
}

async fn in_a_loop(contender: impl Contender, calls: u64) {
    for _ in 0..calls {
        let (user_id, file_md5) = arguments();
        assert_eq!(contender.upload(user_id, file_md5).await, 32);
    }
}

/// Arguments that no other call of this process has.
fn arguments() -> (u64, String) {
    static CALLS: AtomicU64 = AtomicU64::new(0);

    let user_id = CALLS.fetch_add(1, Ordering::Relaxed);
    (user_id, "9e107d9d372bb6826bd81d3542a419d6".to_owned())
}

/// The name of the guarded function.
const ENDPOINT: &str = "bench.upload";
/// How long a key is held at most.
const TTL: Duration = Duration::from_secs(30);

/// The key a person would write: as long as ours, from the same digest of the same parts.
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
