//! Concurrent attempts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotence::testkit::{Fault, FaultyStore};
use idempotent_runtime::{Counter, Error, Idempotency, MemoryStore, Store};
use tokio::sync::{Barrier, Mutex};
use tokio::task::JoinSet;

use crate::counter::mutant::ReadsThenWrites;
use support::required_only::RequiredOnly;

const LIMIT: u64 = 7;

/// A counter with a long deadline, because an attempt that is sent again after 32 others counts twice.
pub(crate) fn counter(store: impl Store) -> Counter {
    counter_within(store, "pages.submit", Duration::from_mins(2))
}

/// A counter with the default deadline of a second, or with a longer deadline if the machine is busy: four times the time
/// that as many attempts take now, in sequence and without a race.
pub(crate) async fn hurried_by_control(
    store: impl Store + Clone,
    name: String,
    attempts: usize,
) -> Counter {
    let control = counter(store.clone());
    let begun = Instant::now();
    for _ in 0..attempts {
        match control.attempt("control").await {
            Ok(_) | Err(Error::LimitReached(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    counter_within(store, name, DEFAULT_DEADLINE.max(begun.elapsed() * 4))
}

/// What is wrong with the numbers of concurrent attempts at one thing.
pub(crate) async fn wrong(counter: &Counter, attempts: usize) -> Option<String> {
    let start = Arc::new(Barrier::new(attempts));
    let mut running = JoinSet::new();
    for _ in 0..attempts {
        let (counter, start) = (counter.clone(), Arc::clone(&start));
        running.spawn(async move {
            start.wait().await;
            match counter.attempt("page").await {
                Ok(attempt) => (true, attempt.number()),
                Err(Error::LimitReached(limited)) => (false, limited.attempt()),
                Err(error) => panic!("{error:?}"),
            }
        });
    }
    let mut answers = running.join_all().await;
    answers.sort_unstable_by_key(|(_, number)| *number);
    let right = (1..=attempts as u64).map(|number| (number <= LIMIT, number));
    (!answers.iter().copied().eq(right)).then(|| format!("{answers:?}"))
}

/// A counter of a default handle, whose deadline is a second.
fn hurried(store: impl Store) -> Counter {
    counter_within(store, "pages.submit", DEFAULT_DEADLINE)
}

const DEFAULT_DEADLINE: Duration = Duration::from_secs(1);

fn counter_within(
    store: impl Store,
    name: impl Into<Cow<'static, str>>,
    deadline: Duration,
) -> Counter {
    let handle = Idempotency::builder(store).deadline(deadline);
    let minutes = Duration::from_mins(10);
    let counter = handle.build().unwrap();
    counter.counter(name, LIMIT, minutes).unwrap()
}

/// The outcomes of concurrent attempts at one thing, and of attempts at another thing at the same time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) admitted: u64,
    beyond_the_limit: u64,
    unavailable: u64,
    neighbours: usize,
}

impl Tally {
    /// Asserts that as many attempts as the limit are admitted, that the other attempts are refused, and that all attempts at
    /// the other thing succeed.
    pub(crate) fn right(attempts: u64) -> Self {
        Self {
            admitted: LIMIT,
            beyond_the_limit: attempts - LIMIT,
            unavailable: 0,
            neighbours: NEIGHBOURS,
        }
    }

    /// Whether attempts were refused because of the time, and no other was admitted in their place.
    pub(crate) fn is_hurried(&self) -> bool {
        let late = self.unavailable > 0 || self.neighbours < NEIGHBOURS;
        late && self.admitted <= LIMIT
    }
}

const NEIGHBOURS: usize = 10;

/// Starts concurrent attempts at one thing, on each of the counters in turn, and at the same time attempts at another thing.
pub(crate) async fn stampede(counters: &[Counter], attempts: usize) -> Tally {
    // Only one such test runs at a time, because the attempts have a deadline.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

    let _only = ONE_AT_A_TIME.lock().await;
    let start = Arc::new(Barrier::new(attempts + 1));
    let mut running = JoinSet::new();
    for racer in 0..attempts {
        let counter = counters[racer % counters.len()].clone();
        let start = Arc::clone(&start);
        running.spawn(async move {
            start.wait().await;
            counter.attempt("page").await
        });
    }
    start.wait().await;
    let mut tally = Tally::default();
    for page in 0..NEIGHBOURS {
        let served = counters[0].attempt(&("neighbour", page)).await;
        tally.neighbours += usize::from(served.is_ok());
    }
    for answer in running.join_all().await {
        match answer {
            Ok(_) => tally.admitted += 1,
            Err(Error::LimitReached(_)) => tally.beyond_the_limit += 1,
            Err(_) => tally.unavailable += 1,
        }
    }
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_concurrent_attempts_the_first_seven_are_admitted() {
    for _ in 0..20 {
        assert_eq!(wrong(&counter(MemoryStore::new()), 200).await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_of_four_operations_counts_50_concurrent_attempts() {
    for _ in 0..5 {
        let counter = counter(RequiredOnly(MemoryStore::new()));
        assert_eq!(wrong(&counter, 50).await, None);
    }
}

/// In sequence the attempts take more than half of the second, so no attempt may lose time in a race with another attempt.
#[tokio::test(start_paused = true)]
async fn a_slow_store_of_four_operations_serves_200_attempts_within_the_deadline() {
    let slow = FaultyStore::new(MemoryStore::new());
    slow.always_all(Fault::Delay(Duration::from_millis(1)));
    let counter = hurried(RequiredOnly(slow));
    assert_eq!(stampede(&[counter], 200).await, Tally::right(200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_count_that_reads_and_then_writes_admits_too_many() {
    let counter = counter(ReadsThenWrites(MemoryStore::new()));
    assert!(wrong(&counter, 200).await.is_some());
}
