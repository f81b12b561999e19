//! Callers that drop their calls, beside callers that wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idempotent_runtime::{Error, Idempotency, Store};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

const DROPPING: u64 = 32;
/// How long a caller waits before it drops its call.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long the calls are dropped, and the fewest victims.
const STORM: Duration = Duration::from_secs(2);
const VICTIMS: u64 = 20;
const TTL: Duration = Duration::from_mins(1);

/// What the victims of a storm saw.
pub struct Victims {
    pub refusals: Vec<Error>,
    pub took: Vec<Duration>,
    /// The calls that were dropped.
    pub dropped: u64,
    /// The most withdrawals that waited for the store at a time.
    pub backlog: usize,
    /// The withdrawals that had not ended a minute after the storm.
    pub left: usize,
}

impl fmt::Display for Victims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut took = self.took.clone();
        took.sort_unstable();
        let (half, slowest) = (took.get(took.len() / 2), took.last());
        let (dropped, victims, refused) = (self.dropped, took.len(), self.refusals.len());
        let backlog = self.backlog;
        write!(
            f,
            "{dropped} dropped, {victims} answered (p50 {half:?}, slowest {slowest:?}), {refused} refused, {backlog} withdrawals waited"
        )
    }
}

impl Victims {
    /// Asserts that no victim was refused, and that withdrawals do not add up: few waited, or on a slow machine fewer than half, and all
    /// have ended.
    pub fn assert_well(&self) {
        assert!(self.refusals.is_empty(), "{:?}", self.refusals);
        assert_eq!(self.left, 0, "{self}");
        let most = (self.dropped / 2).max(1000);
        assert!((self.backlog as u64) < most, "{self}");
    }
}

/// Makes one call after the other while 32 callers drop their calls.
pub async fn victims_of_drops(store: impl Store) -> Victims {
    // A store that is only slow refuses no call, but withdrawals that add up delay a call without end.
    let idempotency = Idempotency::builder(store).deadline(Duration::from_mins(1));
    let idempotency = idempotency.build().expect("a handle");
    let (ends, dropped) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let mut callers = JoinSet::new();
    for caller in 0..DROPPING {
        let (idempotency, ends, dropped) =
            (idempotency.clone(), Arc::clone(&ends), Arc::clone(&dropped));
        callers.spawn(async move {
            for number in 0_u64.. {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let call = idempotency.call("dropped").key(&(caller, number)).ttl(TTL);
                let call = call.run(async { Ok::<_, Error>(()) });
                if timeout(PATIENCE, call).await.is_err() {
                    dropped.fetch_add(1, Ordering::SeqCst);
                }
                // A store in memory answers without waiting.
                yield_now().await;
            }
        });
    }
    let began = Instant::now();
    let (mut refusals, mut took, mut backlog) = (Vec::new(), Vec::new(), 0);
    for number in 0_u64.. {
        if number >= VICTIMS && began.elapsed() >= STORM {
            break;
        }
        let sent = Instant::now();
        let call = idempotency.call("victim").key(&number).ttl(TTL);
        if let Err(error) = call.run(async { Ok::<_, Error>(()) }).await {
            refusals.push(error);
            break;
        }
        took.push(sent.elapsed());
        let drained = idempotency.drain(Duration::ZERO).await;
        let waiting = drained.err().map_or(0, |error| error.remaining());
        backlog = backlog.max(waiting);
        yield_now().await;
    }
    ends.store(true, Ordering::SeqCst);
    callers.join_all().await;
    let drained = idempotency.drain(Duration::from_mins(1)).await;
    Victims {
        left: drained.err().map_or(0, |error| error.remaining()),
        refusals,
        took,
        dropped: dropped.load(Ordering::SeqCst),
        backlog,
    }
}
