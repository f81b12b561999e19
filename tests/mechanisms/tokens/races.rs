//! Concurrent redemptions of one token.

use std::sync::Arc;

use idempotent_runtime::{Idempotency, MemoryStore, Store};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::tokens::stores::Around;
use crate::tokens::{LONG, issue, on, redeem};
use support::required_only::RequiredOnly;

const RACERS: usize = 100;

/// How many concurrent redemptions are accepted. Each is on its own handle. The others get `token_used`.
pub(crate) async fn accepted<S: Store + Clone>(store: S) -> usize {
    let token = issue(&on(store.clone())).await;
    let start = Arc::new(Barrier::new(RACERS));
    let mut running = JoinSet::new();
    for _ in 0..RACERS {
        let (start, token) = (Arc::clone(&start), token.clone());
        let handle = Idempotency::builder(store.clone()).deadline(LONG);
        let tokens = handle.build().unwrap().tokens();
        running.spawn(async move {
            start.wait().await;
            redeem(&tokens, &token).await
        });
    }
    let mut accepted = 0;
    for outcome in running.join_all().await {
        match outcome {
            Ok(_) => accepted += 1,
            Err(error) => assert_eq!(error.code(), "token_used"),
        }
    }
    accepted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_a_hundred_concurrent_redemptions_is_accepted() {
    for _ in 0..20 {
        assert_eq!(accepted(MemoryStore::new()).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_a_hundred_concurrent_redemptions_is_accepted_on_a_store_of_four_operations()
{
    for _ in 0..20 {
        assert_eq!(accepted(RequiredOnly(MemoryStore::new())).await, 1);
    }
}

#[tokio::test]
async fn a_store_that_looks_and_then_puts_accepts_more_than_one() {
    let store = Around::LooksThenPuts(MemoryStore::new());
    assert!(
        accepted(store).await > 1,
        "the broken store must accept more than one, or the tests above prove nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_given_back_repeatedly_has_one_redeemer_at_a_time() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    let store = MemoryStore::new();
    let token = issue(&on(store.clone())).await;
    let (held, redeemed) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let mut running = JoinSet::new();
    for _ in 0..8 {
        let (held, redeemed) = (Arc::clone(&held), Arc::clone(&redeemed));
        let (tokens, token) = (on(store.clone()), token.clone());
        running.spawn(async move {
            while redeemed.load(Ordering::SeqCst) < 2000 {
                if let Ok(mine) = redeem(&tokens, &token).await {
                    assert!(
                        !held.swap(true, Ordering::SeqCst),
                        "two redeemers have the token at the same time"
                    );
                    redeemed.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    held.store(false, Ordering::SeqCst);
                    assert!(mine.give_back().await.unwrap());
                }
                tokio::task::yield_now().await;
            }
        });
    }
    running.join_all().await;
}
