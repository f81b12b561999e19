//! Calls during failures of servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idempotent_redis::RedisStore;
use idempotent_runtime::{Error, Idempotency};
use tokio::task::JoinSet;

use crate::store::servers::{MAX_WAIT, TTL, chain, next};

/// Callers that make one call after another, each with a new key.
pub(crate) struct Load {
    ends: Arc<AtomicBool>,
    successes: Arc<AtomicUsize>,
    callers: JoinSet<Vec<Refusal>>,
}

/// The answer to a call.
pub(crate) struct Refusal {
    code: &'static str,
    text: String,
    /// When, without the time in which this process stood still.
    after: Duration,
}

impl Load {
    pub(crate) async fn on(store: &RedisStore) -> Self {
        let idempotency = Idempotency::new(store.clone());
        let (ends, successes) = (Arc::default(), Arc::default());
        let stalls = Stalls::default();
        let mut callers = JoinSet::new();
        for _ in 0..4 {
            let idempotency = idempotency.clone();
            let (ends, successes) = (Arc::clone(&ends), Arc::clone(&successes));
            callers.spawn(make_calls(idempotency, ends, successes, stalls.clone()));
        }
        tokio::spawn(stalls.clone().add_up(Arc::clone(&ends)));
        let load = Self {
            ends,
            successes,
            callers,
        };
        load.goes_well().await;
        load
    }

    /// Waits until more calls succeed than were running at the beginning.
    pub(crate) async fn goes_well(&self) {
        let deadline = Instant::now() + MAX_WAIT;
        let before = self.successes.load(Ordering::SeqCst);
        while self.successes.load(Ordering::SeqCst) < before + 200 {
            assert!(Instant::now() < deadline, "the calls do not succeed again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends the calls. Asserts that every refusal came in time and was `store_unavailable`.
    pub(crate) async fn end(self) -> Vec<Refusal> {
        self.ends.store(true, Ordering::SeqCst);
        let refusals: Vec<_> = self
            .callers
            .join_all()
            .await
            .into_iter()
            .flatten()
            .collect();
        for refusal in &refusals {
            let Refusal { code, text, after } = refusal;
            assert_eq!(*code, "store_unavailable", "{text}");
            // The deadline is a second.
            assert!(*after < Duration::from_secs(5), "after {after:?}: {text}");
        }
        refusals
    }
}

async fn make_calls(
    idempotency: Idempotency,
    ends: Arc<AtomicBool>,
    successes: Arc<AtomicUsize>,
    stalls: Stalls,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    while !ends.load(Ordering::SeqCst) {
        let (begun, number) = (Instant::now(), next());
        let stood_still = stalls.sum();
        let call = idempotency.call("load").key(&number).ttl(TTL).replay();
        let result: Result<usize, Error> = call.run(async { Ok(number) }).await;
        match result {
            Ok(answer) => {
                assert_eq!(answer, number);
                successes.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => refusals.push(Refusal {
                code: error.code(),
                text: chain(&error),
                after: begun
                    .elapsed()
                    .saturating_sub(stalls.sum().saturating_sub(stood_still)),
            }),
        }
    }
    refusals
}

/// For how long a busy machine did not run this process, in microseconds. The latest stall may not be in the sum yet.
#[derive(Clone, Default)]
struct Stalls(Arc<AtomicU64>);

impl Stalls {
    async fn add_up(self, ends: Arc<AtomicBool>) {
        let pause = Duration::from_millis(10);
        while !ends.load(Ordering::SeqCst) {
            let begun = Instant::now();
            tokio::time::sleep(pause).await;
            let late = begun.elapsed().saturating_sub(pause);
            if late > Duration::from_millis(50) {
                let late = u64::try_from(late.as_micros()).unwrap();
                self.0.fetch_add(late, Ordering::SeqCst);
            }
        }
    }

    fn sum(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst))
    }
}
