//! Redemptions whose future is dropped: after any poll the token becomes valid again.

use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Idempotency, MemoryStore};
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::tokens::stores::Around;
use crate::tokens::{
    Events, LONG, OPERATION, USER, assert_accepted, assert_refused, issue, on, redeem,
};

#[tokio::test(start_paused = true)]
async fn a_redemption_dropped_after_any_poll_leaves_the_token_valid() {
    for given_back_before in [false, true] {
        for polls in 0.. {
            let store = Around::Slow(MemoryStore::new());
            let handle = Idempotency::new(store.clone());
            let tokens = handle.tokens();
            let token = issue(&tokens).await;
            if given_back_before {
                let redeemed = redeem(&tokens, &token).await.unwrap();
                redeemed.give_back().await.unwrap();
            }
            let mut over = false;
            {
                let mut redeemed = std::pin::pin!(redeem(&tokens, &token));
                for _ in 0..polls {
                    over = redeemed.as_mut().now_or_never().is_some();
                    yield_now().await;
                }
            }
            if over {
                assert!(polls > 2, "the store is pending twice in each operation");
                break;
            }
            handle.drain(LONG).await.unwrap();
            assert_accepted(&tokens, &token).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redemption_dropped_while_the_store_fails_leaves_the_token_valid() {
    for fault in [
        Fault::Hang,
        Fault::ApplyThenHang,
        Fault::LoseReply,
        Fault::Delay(Duration::from_millis(100)),
        Fault::ApplyLate(Duration::from_millis(5)),
        Fault::ApplyLate(Duration::from_secs(5)),
    ] {
        for after in [0, 5, 200, 300, 900] {
            let (events, store) = (Events::default(), FaultyStore::new(MemoryStore::new()));
            let handle = events.handle(store.clone());
            let tokens = handle.tokens();
            let token = issue(&tokens).await;
            events.take();
            store.always(Op::Exchange, fault);
            let mut cancelled = false;
            {
                let mut redeemed = std::pin::pin!(redeem(&tokens, &token));
                assert!(redeemed.as_mut().now_or_never().is_none());
                let after = sleep(Duration::from_millis(after));
                tokio::select! {
                    biased;
                    redeemed = redeemed => {
                        // The redemption was in time, or was refused. Other tests check these cases.
                        if let Ok(redeemed) = redeemed {
                            redeemed.give_back().await.unwrap();
                        }
                        events.take();
                    }
                    () = after => cancelled = true,
                }
            }
            store.heal();
            handle.drain(LONG).await.unwrap();
            let only = if cancelled {
                &["operation_cancelled"][..]
            } else {
                &[]
            };
            assert_eq!(events.take(), only, "{fault:?} after {after} ms");
            // Now every delayed request has arrived.
            sleep(LONG).await;
            assert_accepted(&tokens, &token).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn drain_counts_the_work_in_the_background() {
    let store = FaultyStore::new(MemoryStore::new());
    let handle = Idempotency::new(store.clone());
    let tokens = handle.tokens();
    let token = issue(&tokens).await;
    store.always(Op::Exchange, Fault::Hang);
    {
        let mut redeemed = std::pin::pin!(redeem(&tokens, &token));
        assert!(redeemed.as_mut().now_or_never().is_none());
        assert_eq!(handle.drain(Duration::ZERO).await, Ok(()));
    }
    let undrained = handle.drain(Duration::from_secs(1)).await;
    assert_eq!(undrained.unwrap_err().remaining(), 1);
    store.heal();
    assert_eq!(handle.drain(LONG).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_redemption_that_was_never_polled_sends_nothing() {
    let store = idempotence::testkit::CountingStore::new(MemoryStore::new());
    let tokens = on(store.clone());
    let token = issue(&tokens).await;
    store.reset();
    drop(tokens.redeem(token.as_str(), &USER, OPERATION));
    sleep(LONG).await;
    assert_eq!(store.counts().total(), 0);
}

#[test]
fn a_redemption_dropped_outside_of_its_runtime_is_given_back_in_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_time().build().unwrap();
    let store = FaultyStore::new(MemoryStore::new());
    let handle = Idempotency::new(store.clone());
    let tokens = handle.tokens();
    let token = runtime.block_on(issue(&tokens));
    store.next(Op::Exchange, Fault::ApplyThenHang);
    let mut redeemed = Box::pin(redeem(&tokens, &token));
    runtime.block_on(async { assert!(redeemed.as_mut().now_or_never().is_none()) });
    drop(redeemed);
    runtime.block_on(async {
        handle.drain(LONG).await.unwrap();
        assert_accepted(&tokens, &token).await;
    });
}

#[test]
fn work_that_ends_with_its_runtime_is_reported() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    let (events, store) = (Events::default(), FaultyStore::new(MemoryStore::new()));
    let handle = events.handle(store.clone());
    let tokens = handle.tokens();
    let token = runtime.block_on(issue(&tokens));
    events.take();
    store.always(Op::Exchange, Fault::Hang);
    let mut redeemed = Box::pin(redeem(&tokens, &token));
    runtime.block_on(async { assert!(redeemed.as_mut().now_or_never().is_none()) });
    drop(runtime);
    drop(redeemed);
    assert_eq!(events.take(), ["not_withdrawn", "operation_cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_limit_bounds_how_many_dropped_redemptions_are_given_back() {
    for (limit, good) in [(0, 0), (3, 3), (5, 5), (100, 5)] {
        let (events, store) = (Events::default(), FaultyStore::new(MemoryStore::new()));
        let handle = events.builder(store.clone()).cleanup_limit(limit);
        let handle = handle.build().unwrap();
        let tokens = handle.tokens();
        let mut issued = Vec::new();
        for _ in 0..5 {
            issued.push(issue(&tokens).await);
        }
        events.take();
        store.always(Op::Exchange, Fault::ApplyThenHang);
        for token in &issued {
            let mut redeemed = std::pin::pin!(redeem(&tokens, token));
            assert!(redeemed.as_mut().now_or_never().is_none());
        }
        let mut kinds = events.take();
        kinds.retain(|kind| kind != "operation_cancelled");
        assert_eq!(kinds, vec!["not_withdrawn"; 5 - good]);
        store.heal();
        handle.drain(LONG).await.unwrap();
        for (nth, token) in issued.iter().enumerate() {
            if nth < good {
                assert_accepted(&tokens, token).await;
            } else {
                assert_refused(&tokens, token, "token_used").await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_cleanup_limit_bounds_how_many_cleanups_wait_for_an_unavailable_store() {
    const MOST: usize = 10_000;

    let (events, store) = (Events::default(), FaultyStore::new(MemoryStore::new()));
    let handle = events.handle(store.clone());
    let tokens = handle.tokens();
    let token = issue(&tokens).await;
    events.take();
    store.always(Op::Exchange, Fault::Hang);
    for dropped in 0..MOST + 2 {
        let stuck = events
            .take()
            .iter()
            .filter(|kind| *kind == "not_withdrawn")
            .count();
        assert_eq!(stuck, dropped.saturating_sub(MOST).min(1));
        let mut redeemed = std::pin::pin!(redeem(&tokens, &token));
        assert!(redeemed.as_mut().now_or_never().is_none());
    }
    assert_eq!(events.take(), ["not_withdrawn", "operation_cancelled"]);
    store.heal();
    handle.drain(LONG).await.unwrap();
    assert_accepted(&tokens, &token).await;
}
