//! Calls during failures of servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    after: Duration,
}

impl Load {
    pub(crate) async fn on(store: &RedisStore) -> Self {
        let idempotency = Idempotency::new(store.clone());
        let (ends, successes) = (Arc::default(), Arc::default());
        let mut callers = JoinSet::new();
        for _ in 0..4 {
            let idempotency = idempotency.clone();
            let (ends, successes) = (Arc::clone(&ends), Arc::clone(&successes));
            callers.spawn(make_calls(idempotency, ends, successes));
        }
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
            // The deadline is a second. A busy machine may notice its end late.
            assert!(*after < Duration::from_secs(20), "after {after:?}: {text}");
        }
        refusals
    }
}

async fn make_calls(
    idempotency: Idempotency,
    ends: Arc<AtomicBool>,
    successes: Arc<AtomicUsize>,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    while !ends.load(Ordering::SeqCst) {
        let (begun, number) = (Instant::now(), next());
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
                after: begun.elapsed(),
            }),
        }
    }
    refusals
}
