//! Followers: calls that wait for an equal call of the same process. When they are refused, and when they claim themselves.

use std::cell::Cell;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, OnStoreError, Policy, Release, StoreErrorKind};
use tokio::time::{Instant, advance, sleep};

use crate::protocol::guarded::{Guarded, forever, millis, secs, yielding};
use crate::protocol::hinting::Hinting;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_the_same_process_gets_in_progress_with_release_false() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).release(Release::Never));
    let _held = guarded.call(1).claim().await.unwrap();
    let refused = guarded.call(1).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "in_progress");
    let refused = guarded.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "taken");
}

#[tokio::test(start_paused = true)]
async fn an_unguarded_body_is_still_the_only_running_body_in_this_process() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().on_store_error(OnStoreError::Run));
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let first = guarded.run(1, async {
        sleep(secs(5)).await;
        Ok(())
    });
    let second = async {
        sleep(secs(2)).await;
        guarded.run(1, forever()).await
    };
    let (first, second) = tokio::join!(first, second);
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "in_progress");
    guarded.run(1, async { Ok(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_completion_has_no_answer_still_counts_as_done() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Replace, Fault::ApplyThenHang);
    guarded.run(1, async { Ok(()) }).await.unwrap();
    let stored = guarded.entry(1).await.unwrap().value;
    assert!(stored.starts_with(b"idem2 D"));
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_call_refuses_duplicates_only_until_its_lease_ends() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Replace, Fault::Delay(millis(1)));
    // For example in a buffered stream with a slow consumer.
    let mut frozen = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(frozen.as_mut().now_or_never().is_none());
    sleep(secs(3600)).await;
    assert_eq!(guarded.entry(1).await, None, "its lease ended an hour ago");
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewed_call_that_freezes_refuses_duplicates_only_until_its_lease_ends() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let body = async {
        // After a pause the scheduler renews the lease of this call.
        sleep(millis(1)).await;
        store.next(Op::Replace, Fault::Delay(millis(1)));
        Ok(())
    };
    let mut frozen = Box::pin(guarded.run(1, body));
    assert!(frozen.as_mut().now_or_never().is_none());
    sleep(millis(2)).await;
    assert!(frozen.as_mut().now_or_never().is_none());
    assert_eq!(store.remaining_faults(), 0, "the call settles");
    sleep(secs(2 * 3600)).await;
    assert_eq!(guarded.entry(1).await, None, "its lease ended");
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_that_asks_again_and_freezes_does_not_delay_its_followers() {
    let store = FaultyStore::new(MemoryStore::new());
    let there = Guarded::on(store.clone(), policy());
    let mut here = there.elsewhere();
    here.policy = policy().wait(secs(3600));
    let held = there.call(1).claim().await.unwrap();
    let mut leader = Box::pin(here.call(1).claim());
    assert!(leader.as_mut().now_or_never().is_none());
    let duplicate = here.clone();
    let follower = tokio::spawn(async move { duplicate.run(1, async { Ok(()) }).await });
    // The follower has seen that its leader waits for the other process.
    tokio::task::yield_now().await;
    held.settle(false).await;
    store.next(Op::Claim, Fault::Hang);
    let started = Instant::now();
    while store.remaining_faults() > 0 {
        assert!(leader.as_mut().now_or_never().is_none());
        sleep(millis(10)).await;
    }
    // From here on the leader is not polled any more.
    follower.await.unwrap().unwrap();
    assert!(started.elapsed() < secs(10), "{:?}", started.elapsed());
}

#[test]
fn outside_a_runtime_a_duplicate_does_not_wait_for_a_claim_in_flight() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Hang);
    let mut first = Box::pin(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    guarded
        .run(1, async { Ok(()) })
        .now_or_never()
        .expect("the call claims at once")
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_was_not_polled_in_time_still_claims() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Hang);
    store.always(Op::Claim, Fault::Delay(millis(100)));
    let mut silent = Box::pin(guarded.call(1).claim());
    assert!(silent.as_mut().now_or_never().is_none());
    let mut late = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(late.as_mut().now_or_never().is_none());
    advance(secs(5)).await;
    late.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_older_than_a_call_does_not_refuse_it() {
    let store = Hinting::new();
    let there = Guarded::on(Arc::clone(&store), policy());
    let here = there.elsewhere();
    let held = there.call(1).claim().await.unwrap();
    store.answer_late();
    let mut first = pin!(here.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    // From here on the key is free, but the first call will receive the older answer that the key is taken.
    held.settle(false).await;
    let second = here.run(1, async { Ok(()) });
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap_err().error().code(), "in_progress");
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_follower_of_a_waiting_call_is_not_refused_by_an_older_answer() {
    let there = Guarded::in_memory(policy().wait(secs(30)));
    let patient = there.elsewhere();
    let mut hasty = patient.clone();
    hasty.policy = policy().wait(millis(50));
    let held = there.call(1).claim().await.unwrap();
    let mut waits = pin!(patient.run(1, async { Ok(()) }));
    assert!(waits.as_mut().now_or_never().is_none());
    held.settle(false).await;
    // From here on the key is free.
    assert_eq!(there.entry(1).await, None);
    let ended = tokio::select! {
        biased;
        _ = waits => panic!("its pause is longer"),
        ended = hasty.run(1, async { Ok(()) }) => ended,
    };
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_follower_waits_longer_than_its_leader() {
    let there = Guarded::in_memory(policy().wait(secs(1)));
    let here = there.elsewhere();
    let held = there.call(1).claim().await.unwrap();
    let second = async {
        sleep(millis(500)).await;
        here.run(1, async { Ok(()) }).await
    };
    let ends = async {
        sleep(millis(1200)).await;
        held.settle(false).await;
    };
    let (first, second, ()) = tokio::join!(here.call(1).claim(), second, ends);
    assert_eq!(first.unwrap_err().error().code(), "in_progress");
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_claims_does_not_end_another_waiting_call() {
    let there = Guarded::in_memory(policy());
    let here = there.elsewhere();
    let mut patient = here.clone();
    patient.policy = policy().wait(secs(5));
    let held = there.call(1).claim().await.unwrap();
    let mut waits = Box::pin(patient.run(1, async { Ok(()) }));
    assert!(waits.as_mut().now_or_never().is_none());
    let mut second = Box::pin(patient.run(1, async { Err::<(), _>(()) }));
    assert!(second.as_mut().now_or_never().is_none());
    here.run(1, forever()).await.unwrap_err();
    // The second call still follows and does not claim itself.
    assert!(second.as_mut().now_or_never().is_none());
    held.settle(false).await;
    let (first, second) = tokio::join!(waits, second);
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_claimed_itself_is_refused_if_its_leader_won_meanwhile() {
    for on_store_error in [OnStoreError::Refuse, OnStoreError::Run] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy().on_store_error(on_store_error));
        // The first call: one lost attempt and one late attempt.
        store.next(Op::Claim, Fault::Hang);
        store.next(Op::Claim, Fault::Delay(millis(500)));
        // The second call.
        store.always(Op::Claim, Fault::Hang);
        let running = Cell::new(0);
        let first = async {
            running.set(1);
            sleep(secs(3)).await;
            running.set(0);
            Ok(())
        };
        let second = async {
            assert_eq!(
                running.get(),
                0,
                "two bodies must not run at once if one of them has the key"
            );
            Ok(())
        };
        let (first, second) = tokio::join!(guarded.run(1, first), guarded.run(1, second));
        first.unwrap();
        assert_eq!(second.unwrap_err().refusal().code(), "in_progress");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_when_an_operator_frees_the_key() {
    let guarded = Guarded::in_memory(policy().wait(secs(5)));
    let _held = guarded.call(1).claim().await.unwrap();
    let mut waits = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(waits.as_mut().now_or_never().is_none());
    let peek = guarded.idempotency.peek("test.pay", &(1_u64,)).await;
    let peek = peek.unwrap().unwrap();
    assert!(guarded.idempotency.forget(&peek).await.unwrap());
    let begun = Instant::now();
    waits.await.unwrap();
    assert_eq!(begun.elapsed(), secs(0));
}

#[tokio::test(start_paused = true)]
async fn a_follower_polled_late_still_learns_the_end_of_an_evicted_call() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let elsewhere = guarded.elsewhere();
    // An operator will free the key of a call in another process.
    let _stuck = elsewhere.call(1).claim().await.unwrap();
    let peek = guarded
        .idempotency
        .peek("test.pay", &(1_u64,))
        .await
        .unwrap()
        .unwrap();
    store.next(Op::Claim, Fault::Delay(millis(100)));
    let begun = Instant::now();
    let mut first = Box::pin(guarded.run(1, async {
        sleep(millis(100)).await;
        Ok(())
    }));
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(second.as_mut().now_or_never().is_none());
    assert!(guarded.idempotency.forget(&peek).await.unwrap());
    // The first is answered before the second is polled again.
    advance(millis(100)).await;
    assert!(first.as_mut().now_or_never().is_none());
    let (first, second) = tokio::join!(first, second);
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "already_done");
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_claim_polled_too_late_is_not_reported_as_an_outage_to_followers() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)).lease(millis(100)));
    store.next(Op::Claim, Fault::Delay(millis(50)));
    let mut frozen = Box::pin(guarded.run::<()>(1, async { panic!("its lease has expired") }));
    assert!(frozen.as_mut().now_or_never().is_none());
    let late = async {
        sleep(millis(200)).await;
        let refused = frozen.await.unwrap_err().refusal();
        assert!(refused.is_unavailable(), "{refused:?}");
    };
    let other = guarded.run(1, async { Ok(()) });
    let (other, ()) = tokio::join!(other, late);
    let outcome = other.map_err(|failed| failed.refusal().is_unavailable());
    assert_ne!(outcome, Err(true));
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_run_in_the_order_in_which_they_came() {
    let policy = Policy::new(secs(60)).release(Release::Always);
    let guarded = Guarded::in_memory(policy.wait(secs(60)));
    let ran = Arc::new(Mutex::new(Vec::new()));
    let calls = (0..64).map(|number| {
        let (guarded, ran) = (guarded.clone(), Arc::clone(&ran));
        tokio::spawn(async move {
            sleep(millis(number)).await;
            let body = async {
                ran.lock().unwrap().push(number);
                sleep(millis(100)).await;
                Ok(())
            };
            guarded.run(1, body).await.unwrap();
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert!(ran.lock().unwrap().iter().copied().eq(0..64), "{ran:?}");
}
