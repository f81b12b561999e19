//! First calls: claim the key of `(user_id, file_md5)`, run a trivial body, release the key.
//!
//! Each call has a new key, so no call is refused.

use std::time::Duration;

use idempotence::{Error, Idempotency, idempotent};
use peer::{ClaimOutcome, FencedOutcome, IdempotencyKey, IdempotencyStore};
use tokio::runtime::Runtime;

use crate::by_hand::{ByHand, Claim};
use crate::{ENDPOINT, Peer, TTL, arguments, key, timed};

/// One way to guard a function. A clone works on the same store and connection.
pub(crate) trait Upload: Clone + Send + Sync + 'static {
    /// Guards one run of the body: claim, body, release.
    fn upload(&self, user_id: u64, file_md5: String) -> impl Future<Output = usize> + Send;
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

/// Calls from `tasks` spawned tasks, each in a loop.
pub(crate) fn lap<'a>(
    runtime: &'a Runtime,
    tasks: u32,
    contender: impl Upload,
) -> Box<dyn Fn(u64) -> Duration + 'a> {
    Box::new(move |calls| {
        timed(
            runtime,
            (0..tasks).map(|_| in_a_loop(contender.clone(), calls)),
        )
    })
}

async fn in_a_loop(contender: impl Upload, calls: u64) {
    for _ in 0..calls {
        let (user_id, file_md5) = arguments();
        assert_eq!(contender.upload(user_id, file_md5).await, 32);
    }
}
