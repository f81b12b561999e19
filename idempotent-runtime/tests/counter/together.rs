//! Many attempts at once.

use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::{Counter, Error, Idempotency, MemoryStore, Store};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::four::Four;
use crate::naive::ReadsThenWrites;

const LIMIT: u64 = 7;

/// A counter of a handle that waits for slow stores, because a try that was given up after 32 others counts once more.
pub(crate) fn counter(store: impl Store) -> Counter {
    let patient = Idempotency::builder(store).deadline(Duration::from_mins(2));
    let minutes = Duration::from_mins(10);
    patient
        .build()
        .unwrap()
        .counter("pages.submit", LIMIT, minutes)
        .unwrap()
}

/// What is wrong with so many attempts at one thing that begin at once.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_200_attempts_at_once_the_first_seven_are_admitted() {
    for _ in 0..20 {
        assert_eq!(wrong(&counter(MemoryStore::new()), 200).await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_of_four_operations_counts_50_attempts_at_once() {
    for _ in 0..5 {
        let counter = counter(Four(MemoryStore::new()));
        assert_eq!(wrong(&counter, 50).await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_count_that_reads_and_then_writes_admits_too_many() {
    let counter = counter(ReadsThenWrites::default());
    assert!(wrong(&counter, 200).await.is_some());
}
