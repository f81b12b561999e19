//! Duplicates of a done call: each gets the stored result of the first call.

use std::sync::atomic::{AtomicU64, Ordering};

use idempotence::{Error, Idempotency, idempotent};
use peer::{ExecutionOutcome, IdempotencyKey, IdempotencyStore};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::by_hand::{ByHand, Claim};
use crate::latency::Took;
use crate::{ENDPOINT, KEPT, Peer, Run, TTL, arguments, key, timed};

/// The numbers of concurrent tasks.
pub const TASKS: [u32; 2] = [1, 64];

/// The sizes of the results in bytes of JSON, and their names.
pub const SIZES: [(usize, &str); 2] = [(SMALL, "1 KiB"), (64 * 1024, "64 KiB")];

pub(crate) const SMALL: usize = 1024;

/// What a guarded function returns.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// A new number for each run of a body.
    number: u64,
    paid: bool,
    cents: u64,
    currency: String,
    text: String,
}

impl Receipt {
    /// A new receipt whose JSON has `size` bytes.
    pub(crate) fn of(size: usize) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);

        let mut receipt = Self {
            number: RUNS.fetch_add(1, Ordering::Relaxed),
            paid: true,
            cents: 12_99,
            currency: "EUR".to_owned(),
            text: String::new(),
        };
        let missing = size - receipt.to_json().len();
        receipt.text = "Paid in full. ".chars().cycle().take(missing).collect();
        receipt
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a receipt can be serialized")
    }

    pub(crate) fn from_json(json: &[u8]) -> Self {
        serde_json::from_slice(json).expect("the JSON of a receipt")
    }
}

/// One way to give duplicates the first result. A clone works on the same store and connection.
pub(crate) trait Replay: Clone + Send + Sync + 'static {
    /// Runs the body if there is no result yet.
    fn pay(
        &self,
        user_id: u64,
        file_md5: String,
        size: usize,
    ) -> impl Future<Output = Receipt> + Send;
}

impl Replay for Idempotency {
    async fn pay(&self, user_id: u64, file_md5: String, size: usize) -> Receipt {
        #[idempotent(
            key = "user_id, file_md5",
            ttl = "1h",
            replay = true,
            name = "bench.replay",
            using = idempotency
        )]
        async fn pay(
            idempotency: &Idempotency,
            user_id: u64,
            file_md5: String,
            size: usize,
        ) -> Result<Receipt, Error> {
            Ok(Receipt::of(size))
        }

        let receipt = pay(self, user_id, file_md5, size).await;
        receipt.expect("no call is running")
    }
}

impl<H: ByHand> Replay for H {
    async fn pay(&self, user_id: u64, file_md5: String, size: usize) -> Receipt {
        let key = key(":", user_id, &file_md5);
        match self.claim(&key).await {
            Claim::Won(owner) => {
                let receipt = Receipt::of(size);
                self.complete(&key, owner, &receipt).await;
                receipt
            }
            Claim::Running => panic!("a call is running"),
            Claim::Done(receipt) => receipt,
        }
    }
}

impl<S: IdempotencyStore + Clone> Replay for Peer<S> {
    async fn pay(&self, user_id: u64, file_md5: String, size: usize) -> Receipt {
        let key = IdempotencyKey::new(key(".", user_id, &file_md5)).expect("a key");
        let claim = self.0.claim(&key, TTL).fingerprint(ENDPOINT, &[]).json();
        let body = |_| async move { Ok(Receipt::of(size)) };
        match claim.execute_or_replay(KEPT, body).await {
            Ok(ExecutionOutcome::Executed(receipt) | ExecutionOutcome::Replayed(receipt)) => {
                receipt
            }
            _ => panic!("no result"),
        }
    }
}

/// Makes a first call for each of `tasks` tasks, and measures its duplicates in a loop.
pub(crate) fn lap<'a, C: Replay>(
    runtime: &'a Runtime,
    tasks: u32,
    size: usize,
    contender: &C,
) -> Run<'a> {
    let first = |_| {
        let contender = contender.clone();
        runtime.block_on(Duplicates::begin(contender, size))
    };
    let all: Vec<Duplicates<C>> = (0..tasks).map(first).collect();
    Box::new(move |calls| {
        let duplicates = all.iter().cloned();
        let tasks = duplicates.map(|duplicates| duplicates.run(calls));
        Took::total(timed(runtime, tasks).0)
    })
}

/// The duplicates of one call.
#[derive(Clone)]
struct Duplicates<C> {
    contender: C,
    size: usize,
    arguments: (u64, String),
    /// The number of the receipt that all must get.
    number: u64,
}

impl<C: Replay> Duplicates<C> {
    async fn begin(contender: C, size: usize) -> Self {
        let arguments = arguments();
        let (user_id, file_md5) = arguments.clone();
        let first = contender.pay(user_id, file_md5, size).await;
        Self {
            contender,
            size,
            arguments,
            number: first.number,
        }
    }

    async fn run(self, calls: u64) {
        for _ in 0..calls {
            let (user_id, file_md5) = self.arguments.clone();
            let receipt = self.contender.pay(user_id, file_md5, self.size).await;
            assert_eq!(receipt.number, self.number, "the body ran again");
        }
    }
}
