//! Hints of a store wake waiting calls. No rule relies on them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use idempotent_runtime::Policy;
use tokio::time::{Instant, sleep};

use crate::protocol::guarded::{Guarded, millis, secs};
use crate::protocol::hinting::Hinting;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn a_hint_wakes_a_waiter_immediately() {
    let store = Hinting::new();
    let there = Guarded::on(Arc::clone(&store), policy().wait(secs(5)));
    let held = there.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let here = there.elsewhere();
    let ends = async {
        sleep(millis(2005)).await;
        held.settle(false).await;
        store.hint();
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 2005);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_subscribe_is_not_missed() {
    let store = Hinting::with_slow_subscribe(millis(40));
    let there = Guarded::on(store, policy().wait(secs(5)));
    let held = there.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let here = there.elsewhere();
    let ends = async {
        sleep(millis(20)).await;
        held.settle(false).await;
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 40);
}

#[tokio::test(start_paused = true)]
async fn when_hints_end_the_waiter_claims_and_subscribes_again() {
    let store = Hinting::new();
    let there = Guarded::on(Arc::clone(&store), policy().wait(secs(9)));
    let held = there.call(1).claim().await.unwrap();
    store.sent.reset();
    let begun = Instant::now();
    let here = there.elsewhere();
    let ends = async {
        sleep(secs(1)).await;
        store.close_receivers();
        sleep(secs(2)).await;
        assert_eq!(store.sent.counts().subscribe, 2);
        held.settle(false).await;
        store.hint();
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 3000);
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_subscribe_hangs_is_polled() {
    let store = Hinting::new();
    store.hang_subscribe();
    let there = Guarded::on(Arc::clone(&store), policy().wait(secs(5)));
    let held = there.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let here = there.elsewhere();
    let ends = async {
        sleep(secs(2)).await;
        held.settle(false).await;
    };
    let (ended, ()) = tokio::join!(here.run(1, async { Ok(()) }), ends);
    ended.unwrap();
    assert!(begun.elapsed() < millis(2751), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_subscribe_does_not_prolong_the_wait() {
    let store = Hinting::new();
    store.hang_subscribe();
    let guarded = Guarded::on(Arc::clone(&store), policy().wait(millis(20)));
    let _held = guarded.call(1).claim().await.unwrap();
    let begun = Instant::now();
    let refused = guarded.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "in_progress");
    assert!(begun.elapsed() < millis(50), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn frequent_hints_cause_at_most_ten_claims_a_second() {
    let store = Hinting::new();
    let guarded = Guarded::on(Arc::clone(&store), policy().wait(secs(9)));
    let _held = guarded.call(1).claim().await.unwrap();
    store.sent.reset();
    let elsewhere = guarded.elsewhere();
    let waits = elsewhere.call(1).claim();
    let changes = async {
        let mut before = 0;
        for second in 1..=8 {
            for _ in 0..200 {
                sleep(millis(5)).await;
                store.hint();
            }
            let total = store.sent.counts().claim;
            assert!(total <= 10 * second, "{total} after {second} s");
            // Unused claims of one second are not added to the next second.
            let asked = total - before;
            assert!(asked <= 11, "{asked} in second {second}");
            before = total;
        }
    };
    tokio::select! {
        _ = waits => panic!("it still waits"),
        () = changes => {}
    }
}

#[tokio::test(start_paused = true)]
async fn only_calls_with_wait_notify_of_their_end() {
    for (policy, notifying) in [(policy().wait(secs(5)), 2), (policy(), 0)] {
        let store = Hinting::new();
        let guarded = Guarded::on(Arc::clone(&store), policy);
        guarded.run(1, async { Ok(()) }).await.unwrap();
        guarded
            .run(2, async { Err::<(), _>(()) })
            .await
            .unwrap_err();
        assert_eq!(store.notifying_commands.load(Ordering::SeqCst), notifying);
    }
}
