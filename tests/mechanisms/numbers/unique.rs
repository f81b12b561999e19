//! No number is made twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::MemoryStore;
use tokio::sync::Barrier;
use tokio::time::advance;

use crate::numbers::{USER, machine, numbers};

const MACHINES: usize = 4;
const TASKS: usize = 8;
const EACH: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_on_several_machines_make_no_number_twice() {
    let store = MemoryStore::new();
    let barrier = Arc::new(Barrier::new(MACHINES * TASKS));
    let mut tasks = Vec::new();
    for _ in 0..MACHINES {
        let numbers = numbers(store.clone()).await;
        for _ in 0..TASKS {
            let (numbers, barrier) = (numbers.clone(), Arc::clone(&barrier));
            tasks.push(tokio::spawn(async move {
                barrier.wait().await;
                let issued: Vec<i64> = (0..EACH)
                    .map(|_| numbers.issue(&USER).unwrap().value())
                    .collect();
                issued
            }));
        }
        // Each task has its machine until the end.
    }
    let mut all = HashSet::new();
    for task in tasks {
        let issued = task.await.unwrap();
        assert!(
            issued.is_sorted_by(|a, b| a < b),
            "the numbers of a task must grow"
        );
        assert!(issued[0] > 0);
        all.extend(issued);
    }
    assert_eq!(all.len(), MACHINES * TASKS * EACH);
}

#[tokio::test(start_paused = true)]
async fn numbers_grow_even_if_there_are_more_than_fit_into_a_millisecond() {
    let numbers = numbers(MemoryStore::new()).await;
    let mut last = numbers.issue(&USER).unwrap();
    let first_time = last.value() >> 22;
    for _ in 0..20_000 {
        let next = numbers.issue(&USER).unwrap();
        assert!(next.value() > last.value());
        assert_eq!(machine(&next), machine(&last));
        last = next;
    }
    // The time did not advance, so the numbers took the times of the next milliseconds: 4096 in each.
    assert_eq!((last.value() >> 22) - first_time, 20_000 / 4096);
    advance(Duration::from_secs(1)).await;
    let later = numbers.issue(&USER).unwrap();
    assert_eq!((later.value() >> 22) - first_time, 1000);
}
