//! A thousand concurrent equal calls, of which one runs.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotence::{Error, Idempotency, idempotent};
use peer::{ClaimOutcome, ExecutionOutcome, FencedOutcome, IdempotencyKey, IdempotencyStore};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::sleep;

use crate::by_hand::{ByHand, Claim};
use crate::latency::Took;
use crate::replay::{Receipt, SMALL};
use crate::{ENDPOINT, KEPT, Peer, Run, TTL, arguments, key, timed};

/// The number of equal calls.
pub const CALLS: u32 = 1000;

/// The answer to the calls that do not run.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// They wait, and get the result.
    Result,
    /// They are refused.
    No,
}

/// One way to answer concurrent equal calls. A clone works on the same store and connection.
pub(crate) trait Crowd: Clone + Send + Sync + 'static {
    /// A call that gets the result of the running call.
    fn share(
        &self,
        user_id: u64,
        file_md5: String,
        storm: Arc<Storm>,
    ) -> impl Future<Output = Receipt> + Send;

    /// A call that runs or is refused. Returns whether it ran.
    fn refuse(
        &self,
        user_id: u64,
        file_md5: String,
        storm: Arc<Storm>,
    ) -> impl Future<Output = bool> + Send;
}

/// The body and the calls that it waits for.
pub(crate) struct Storm {
    ran: AtomicBool,
    /// One permit for every call that the body has waited for.
    arrived: Semaphore,
}

impl Storm {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            ran: AtomicBool::new(false),
            arrived: Semaphore::new(0),
        })
    }

    /// Ends when all calls have started, so that the others are duplicates of a running call.
    async fn until_all_are_made(&self) -> Receipt {
        self.until(CALLS).await;
        Receipt::of(SMALL)
    }

    /// Ends when all other calls were refused, because a later call would run.
    async fn until_all_are_refused(&self) {
        self.until(CALLS - 1).await;
    }

    async fn until(&self, calls: u32) {
        assert!(
            !self.ran.swap(true, Ordering::Relaxed),
            "the body ran again"
        );
        let all = self.arrived.acquire_many(calls).await;
        drop(all.expect("the semaphore is never closed"));
    }
}

impl Crowd for Idempotency {
    async fn share(&self, user_id: u64, file_md5: String, storm: Arc<Storm>) -> Receipt {
        #[idempotent(
            key = "user_id, file_md5",
            ttl = "1h",
            replay = true,
            wait = "10s",
            name = "bench.shared",
            using = idempotency
        )]
        async fn share(
            idempotency: &Idempotency,
            user_id: u64,
            file_md5: String,
            storm: Arc<Storm>,
        ) -> Result<Receipt, Error> {
            Ok(storm.until_all_are_made().await)
        }

        let receipt = share(self, user_id, file_md5, storm).await;
        receipt.expect("the first call succeeds")
    }

    async fn refuse(&self, user_id: u64, file_md5: String, storm: Arc<Storm>) -> bool {
        #[idempotent(
            key = "user_id, file_md5",
            ttl = "30s",
            release = true,
            name = "bench.refuse",
            using = idempotency
        )]
        async fn refuse(
            idempotency: &Idempotency,
            user_id: u64,
            file_md5: String,
            storm: Arc<Storm>,
        ) -> Result<(), Error> {
            storm.until_all_are_refused().await;
            Ok(())
        }

        match refuse(self, user_id, file_md5, storm).await {
            Ok(()) => true,
            Err(Error::InProgress(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Two commands on the store by hand, behind a table of the running calls of this process.
#[derive(Clone)]
pub(crate) struct Together<H> {
    store: H,
    /// Calls that share a result wait at the cell until one call fills it.
    shared: Arc<Mutex<HashMap<String, Arc<OnceCell<Receipt>>>>>,
    running: Arc<Mutex<HashSet<String>>>,
}

impl<H> Together<H> {
    pub(crate) fn new(store: H) -> Self {
        Self {
            store,
            shared: Arc::default(),
            running: Arc::default(),
        }
    }
}

impl<H: ByHand> Crowd for Together<H> {
    async fn share(&self, user_id: u64, file_md5: String, storm: Arc<Storm>) -> Receipt {
        let key = key(":", user_id, &file_md5);
        let cell = {
            let mut shared = self.shared.lock().expect("no panic");
            Arc::clone(shared.entry(key.clone()).or_default())
        };
        let run = || async {
            let receipt = match self.store.claim(&key).await {
                Claim::Won(owner) => {
                    let receipt = storm.until_all_are_made().await;
                    self.store.complete(&key, owner, &receipt).await;
                    receipt
                }
                Claim::Running => panic!("another process has the key"),
                Claim::Done(receipt) => receipt,
            };
            self.shared.lock().expect("no panic").remove(&key);
            receipt
        };
        cell.get_or_init(run).await.clone()
    }

    async fn refuse(&self, user_id: u64, file_md5: String, storm: Arc<Storm>) -> bool {
        let key = key(":", user_id, &file_md5);
        if !self.running.lock().expect("no panic").insert(key.clone()) {
            return false;
        }
        let Claim::Won(owner) = self.store.claim(&key).await else {
            panic!("another process has the key");
        };
        storm.until_all_are_refused().await;
        self.store.release(&key, owner).await;
        self.running.lock().expect("no panic").remove(&key);
        true
    }
}

/// The peer has no table of running calls and cannot wait.
impl<S: IdempotencyStore + Clone> Crowd for Peer<S> {
    async fn share(&self, user_id: u64, file_md5: String, storm: Arc<Storm>) -> Receipt {
        let key = IdempotencyKey::new(key(".", user_id, &file_md5)).expect("a key");
        loop {
            let claim = self.0.claim(&key, TTL).fingerprint(ENDPOINT, &[]).json();
            let body = |_| async { Ok(storm.until_all_are_made().await) };
            match claim.execute_or_replay(KEPT, body).await {
                Ok(ExecutionOutcome::Executed(receipt) | ExecutionOutcome::Replayed(receipt)) => {
                    return receipt;
                }
                Ok(ExecutionOutcome::InFlight) => sleep(PAUSE).await,
                _ => panic!("no result"),
            }
        }
    }

    async fn refuse(&self, user_id: u64, file_md5: String, storm: Arc<Storm>) -> bool {
        let key = IdempotencyKey::new(key(".", user_id, &file_md5)).expect("a key");
        let claim = self.0.claim(&key, TTL).fingerprint(ENDPOINT, &[]);
        let ClaimOutcome::Claimed(guard) = claim.try_insert().await.expect("an answer") else {
            return false;
        };
        storm.until_all_are_refused().await;
        let removed = self.0.remove(&key, guard.fencing_token()).await;
        assert_eq!(removed.expect("an answer"), FencedOutcome::Applied);
        true
    }
}

/// The pause between two polls of the peer: the shortest that tokio supports.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs storms one after another, each until its last call is answered.
pub(crate) fn lap<'a>(runtime: &'a Runtime, answer: Answer, contender: impl Crowd) -> Run<'a> {
    let storm = move |_| {
        let (arguments, storm) = (arguments(), Storm::new());
        let call = |_| {
            let (contender, storm) = (contender.clone(), Arc::clone(&storm));
            call(contender, answer, arguments.clone(), storm)
        };
        timed(runtime, (0..CALLS).map(call)).0
    };
    Box::new(move |storms| Took::total((0..storms).map(&storm).sum()))
}

async fn call(
    contender: impl Crowd,
    answer: Answer,
    (user_id, file_md5): (u64, String),
    storm: Arc<Storm>,
) {
    match answer {
        Answer::Result => {
            storm.arrived.add_permits(1);
            contender.share(user_id, file_md5, storm).await;
        }
        Answer::No => {
            if !contender
                .refuse(user_id, file_md5, Arc::clone(&storm))
                .await
            {
                storm.arrived.add_permits(1);
            }
        }
    }
}
