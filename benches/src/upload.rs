//! First calls: claim the key of `(user_id, file_md5)`, run a trivial body, release the key.
//!
//! Each call has a new key, so no call is refused.

use std::time::{Duration, Instant};

use idempotence::{Error, Idempotency, idempotent};
use peer::{ClaimOutcome, FencedOutcome, IdempotencyKey, IdempotencyStore};
use tokio::runtime::Runtime;

use crate::by_hand::{ByHand, Claim};
use crate::latency::Took;
use crate::{ENDPOINT, Peer, Run, TTL, arguments, key, timed};

/// One way to guard a function. A clone works on the same store and connection.
pub(crate) trait Upload: Clone + Send + Sync + 'static {
    /// Guards one run of the body: claim, body, release.
    fn upload(&self, user_id: u64, file_md5: String) -> impl Future<Output = usize> + Send;

    /// Waits for what the calls have left to the background.
    fn finish(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The attribute, on the store of the handle.
impl Upload for Idempotency {
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

/// The attribute with `settle = "background"`. The time of a lap includes all ends.
#[derive(Clone)]
pub(crate) struct InBackground(pub(crate) Idempotency);

impl Upload for InBackground {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        #[idempotent(
            key = "user_id, file_md5",
            ttl = "30s",
            release = true,
            settle = "background",
            name = "bench.settle",
            using = idempotency
        )]
        async fn upload(
            idempotency: &Idempotency,
            user_id: u64,
            file_md5: String,
        ) -> Result<usize, Error> {
            Ok(file_md5.len())
        }

        upload(&self.0, user_id, file_md5)
            .await
            .expect("a free key")
    }

    async fn finish(&self) {
        let drained = self.0.drain(Duration::from_secs(60)).await;
        drained.expect("the store answers");
    }
}

impl<H: ByHand> Upload for H {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = key(":", user_id, &file_md5);
        let Claim::Won(owner) = self.claim(&key).await else {
            panic!("the key is taken");
        };
        let outcome = file_md5.len();
        self.release(&key, owner).await;
        outcome
    }
}

impl<S: IdempotencyStore + Clone> Upload for Peer<S> {
    async fn upload(&self, user_id: u64, file_md5: String) -> usize {
        let key = IdempotencyKey::new(key(".", user_id, &file_md5)).expect("a key");
        let claim = self.0.claim(&key, TTL).fingerprint(ENDPOINT, &[]);
        let ClaimOutcome::Claimed(guard) = claim.try_insert().await.expect("an answer") else {
            panic!("the key is taken");
        };
        let outcome = file_md5.len();
        let removed = self.0.remove(&key, guard.fencing_token()).await;
        assert_eq!(removed.expect("an answer"), FencedOutcome::Applied);
        outcome
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    /// The lap. In memory, two readings of the clock would be a tenth of a call.
    Lap,
    /// The lap and each call.
    Calls,
}

/// Calls from `tasks` spawned tasks, each in a loop.
pub(crate) fn lap<'a>(
    runtime: &'a Runtime,
    tasks: u32,
    clock: Clock,
    contender: impl Upload,
) -> Run<'a> {
    Box::new(move |calls| match clock {
        Clock::Lap => {
            let task = |_| in_a_loop(contender.clone(), calls);
            Took::total(timed(runtime, (0..tasks).map(task)).0)
        }
        Clock::Calls => {
            let task = |_| each_in_a_loop(contender.clone(), calls);
            let (total, calls) = timed(runtime, (0..tasks).map(task));
            Took::each(total, &calls)
        }
    })
}

async fn in_a_loop(contender: impl Upload, calls: u64) {
    for _ in 0..calls {
        let (user_id, file_md5) = arguments();
        assert_eq!(contender.upload(user_id, file_md5).await, 32);
    }
    contender.finish().await;
}

/// Returns the durations of the calls.
async fn each_in_a_loop(contender: impl Upload, calls: u64) -> Vec<Duration> {
    let mut durations = Vec::with_capacity(usize::try_from(calls).expect("a few calls"));
    for _ in 0..calls {
        let (user_id, file_md5) = arguments();
        let start = Instant::now();
        assert_eq!(contender.upload(user_id, file_md5).await, 32);
        durations.push(start.elapsed());
    }
    contender.finish().await;
    durations
}
