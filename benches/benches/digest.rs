//! The time of one call in memory by the digest of its key: MD5, and SHA-256 with the instructions of the processor if it has
//! them. The result is the 10th percentile of the rounds, because other processes only add time.
//!
//! Without the instructions: `RUSTFLAGS='--cfg sha2_backend="soft"' cargo bench --ignore-rust-version --bench digest --target-dir target/soft`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use idempotence::{Digest, Error, Idempotency, MemoryStore};
use tokio::runtime::Builder;

/// Few calls per round, so that other processes seldom interrupt one.
const CALLS: u32 = 500;
const ROUNDS: usize = 2001;

fn main() {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    for (key, text) in [
        ("a number and 32 digits", 32),
        ("a number and 1,000 letters", 1000),
    ] {
        let text = "a".repeat(text);
        let handles = [Digest::Md5, Digest::Sha256].map(|digest| {
            let handle = Idempotency::builder(MemoryStore::new())
                .digest(digest)
                .build();
            handle.expect("a handle")
        });
        let mut took = [vec![], vec![]];
        for round in 0..ROUNDS {
            // Each digest goes first in every other round.
            for turn in [round % 2, 1 - round % 2] {
                let lap = runtime.block_on(lap(&handles[turn], &text));
                took[turn].push(lap.as_nanos() / u128::from(CALLS));
            }
        }
        let [md5, sha256] = took.map(|mut took| {
            took.sort_unstable();
            took[ROUNDS / 10]
        });
        println!("{key}: {md5} ns by MD5, {sha256} ns by SHA-256");
    }
}

async fn lap(handle: &Idempotency, text: &str) -> Duration {
    let begun = Instant::now();
    for number in 0..CALLS {
        let call = handle.call("bench.upload").key(&number).key(text);
        let call = call
            .ttl(Duration::from_mins(1))
            .release(idempotence::Release::Always);
        let outcome = call.run(async { Ok::<_, Error>(black_box(number)) }).await;
        outcome.expect("no two calls share a key");
    }
    begun.elapsed()
}
