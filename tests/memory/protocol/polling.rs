//! When and how often a call that waits for another process claims.

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, Policy};
use tokio::time::{Instant, advance, sleep};

use crate::protocol::guarded::{Guarded, forever, millis, secs};
use crate::protocol::hinting::Hinting;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_another_process_sends_at_most_ten_commands_a_second() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let _held = guarded.call(1).claim().await.unwrap();
    let elsewhere = guarded.elsewhere();
    store.reset();
    let mut waiting = pin!(elsewhere.call(1).claim());
    for second in 1..5 {
        assert!(waiting.as_mut().now_or_never().is_none());
        for _ in 0..100 {
            advance(millis(10)).await;
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        assert!(
            store.counts().total() <= 10 * second,
            "{:?}",
            store.counts()
        );
    }
    assert!(store.counts().claim >= 8, "{:?}", store.counts());
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_of_one_process_share_their_claims() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let _held = guarded.call(1).claim().await.unwrap();
    let elsewhere = guarded.elsewhere();
    store.reset();
    let waiting = (0..100).map(|_| async { elsewhere.call(1).claim().await.unwrap_err() });
    for refused in join_all(waiting).await {
        assert_eq!(refused.error().code(), "in_progress");
    }
    assert!(store.counts().total() <= 55, "{:?}", store.counts());
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_claims_with_growing_random_pauses() {
    let store = CountingStore::new(MemoryStore::new());
    let policy = policy().lease(secs(30)).wait(secs(30));
    let guarded = Guarded::on(store.clone(), policy);
    let there = guarded.call(1).claim().await.unwrap();
    store.reset();
    let here = guarded.elsewhere();
    let mut waiting = pin!(here.call(1).claim());
    let mut asked = Vec::new();
    for _ in 0..15_000 {
        assert!(waiting.as_mut().now_or_never().is_none());
        if store.counts().claim > asked.len() {
            asked.push(Instant::now());
        }
        advance(millis(1)).await;
    }
    drop(there);
    // The pauses are random, so the test can only check their bounds.
    let pauses: Vec<_> = asked
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).as_millis())
        .collect();
    assert!(
        pauses.iter().all(|pause| (100..=752).contains(pause)),
        "{pauses:?}"
    );
    assert!(pauses[8..].iter().all(|pause| *pause >= 500), "{pauses:?}");
    let mut late = pauses[8..].to_vec();
    late.sort_unstable();
    late.dedup();
    assert!(late.len() > 3, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_claims_a_last_time_when_its_wait_ends() {
    for _ in 0..20 {
        let there = Guarded::in_memory(policy().wait(millis(476)));
        let held = there.call(1).claim().await.unwrap();
        let ends = async {
            // The attempt before the last one is at 375 ms at the latest.
            sleep(millis(400)).await;
            held.settle(false).await;
        };
        let here = there.elsewhere();
        let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
        ended.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_does_not_claim_at_the_end_of_its_wait_after_a_recent_answer() {
    let store = CountingStore::new(MemoryStore::new());
    let there = Guarded::on(store.clone(), policy().wait(millis(20)));
    let _held = there.call(1).claim().await.unwrap();
    store.reset();
    there.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(store.counts().claim, 1);
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_takes_over_waiting_reuses_the_recent_answer() {
    let store = CountingStore::new(MemoryStore::new());
    let there = Guarded::on(store.clone(), policy().wait(millis(475)));
    let here = there.elsewhere();
    let _held = there.call(1).claim().await.unwrap();
    let mut hasty = pin!(here.call(1).claim());
    assert!(hasty.as_mut().now_or_never().is_none());
    sleep(millis(10)).await;
    let mut second = pin!(here.call(1).claim());
    assert!(second.as_mut().now_or_never().is_none());
    tokio::select! {
        refused = &mut hasty => assert_eq!(refused.unwrap_err().error().code(), "in_progress"),
        _ = &mut second => panic!("it still has 10 ms to wait"),
    }
    store.reset();
    assert_eq!(second.await.unwrap_err().error().code(), "in_progress");
    assert_eq!(store.counts().claim, 0);
}

#[tokio::test(start_paused = true)]
async fn every_claim_of_a_waiting_call_has_a_new_owner() {
    let store = Hinting::new();
    let there = Guarded::on(Arc::clone(&store), policy().wait(secs(3)));
    let _held = there.call(1).claim().await.unwrap();
    there.elsewhere().call(1).claim().await.unwrap_err();
    let mut claims = store.claims.lock().unwrap().clone();
    let all = claims.len();
    claims.sort();
    claims.dedup();
    assert_eq!((claims.len(), all > 5), (all, true));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_after_a_wait_has_the_whole_deadline() {
    let store = FaultyStore::new(MemoryStore::new());
    let there = Guarded::on(store.clone(), policy().wait(secs(10)));
    let held = there.call(1).claim().await.unwrap();
    let here = there.elsewhere();
    let ends = async {
        sleep(secs(3)).await;
        store.always(Op::Claim, Fault::Delay(millis(800)));
        held.settle(false).await;
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_wait_a_hanging_store_fails_the_call_after_the_deadline() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    store.always(Op::Claim, Fault::Hang);
    let begun = Instant::now();
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert!(refused.is_unavailable());
    assert!(begun.elapsed() <= millis(1010), "{:?}", begun.elapsed());
}
