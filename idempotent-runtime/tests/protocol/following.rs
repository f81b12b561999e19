//! A call behind an equal one of the same process: what it is told of it, and when it asks the store itself.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use idempotent_runtime::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, OnStoreError, Policy, Release, StoreErrorKind};
use tokio::time::{Instant, advance, sleep};

use crate::guarded::{Guarded, forever, millis, secs, yielding};
use crate::hinting::Hinting;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn that_a_call_here_runs_is_known_also_when_nothing_is_released() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).release(Release::Never));
    let _held = guarded.call(1).claim().await.unwrap();
    let refused = guarded.call(1).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "in_progress");
    let refused = guarded.elsewhere().call(1).claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "taken");
}

#[tokio::test(start_paused = true)]
async fn an_unguarded_body_is_still_the_only_one_here() {
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
async fn after_its_answer_a_call_does_not_run_any_more() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Replace, Fault::ApplyThenHang);
    guarded.run(1, async { Ok(()) }).await.unwrap();
    let standing = guarded.stands(1).await.unwrap().value;
    assert!(standing.starts_with(b"idem1 D"));
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_any_more_does_not_refuse_the_others_for_ever() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Replace, Fault::Delay(millis(1)));
    // As in a stream that is buffered, whose consumer takes its time.
    let mut frozen = Box::pin(guarded.run(1, async { Ok(()) }));
    assert!(frozen.as_mut().now_or_never().is_none());
    sleep(secs(3600)).await;
    assert_eq!(guarded.stands(1).await, None, "its lease ended an hour ago");
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_waited_and_is_not_polled_any_more_does_not_refuse_the_others_for_ever() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let body = async {
        // The keeper knows of a call that has waited.
        sleep(millis(1)).await;
        store.next(Op::Replace, Fault::Delay(millis(1)));
        Ok(())
    };
    let mut frozen = Box::pin(guarded.run(1, body));
    assert!(frozen.as_mut().now_or_never().is_none());
    sleep(millis(2)).await;
    assert!(frozen.as_mut().now_or_never().is_none());
    assert_eq!(store.remaining_faults(), 0, "it settles");
    sleep(secs(2 * 3600)).await;
    assert_eq!(guarded.stands(1).await, None, "its lease ended");
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

#[test]
fn outside_of_a_runtime_a_claim_on_its_way_is_not_waited_for() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Hang);
    let mut first = Box::pin(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    guarded
        .run(1, async { Ok(()) })
        .now_or_never()
        .expect("it asks at once")
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_was_not_polled_for_long_still_asks_the_store() {
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
    // From here on nobody has the key, and the first one is about to be told that it is taken.
    held.settle(false).await;
    let second = here.run(1, async { Ok(()) });
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap_err().error().code(), "in_progress");
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_follows_one_that_waits_is_not_refused_by_a_record_from_before_its_call() {
    let there = Guarded::in_memory(policy().wait(secs(30)));
    let patient = there.elsewhere();
    let mut hasty = patient.clone();
    hasty.policy = policy().wait(millis(50));
    let held = there.call(1).claim().await.unwrap();
    let mut waits = pin!(patient.run(1, async { Ok(()) }));
    assert!(waits.as_mut().now_or_never().is_none());
    held.settle(false).await;
    // From here on nobody has the key.
    assert_eq!(there.stands(1).await, None);
    let ended = tokio::select! {
        biased;
        _ = waits => panic!("it pauses for longer"),
        ended = hasty.run(1, async { Ok(()) }) => ended,
    };
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_can_wait_longer_than_the_one_before_it_waits_longer() {
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
async fn who_asked_beside_another_does_not_end_it() {
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
    // The second one goes on following: it does not ask by itself.
    assert!(second.as_mut().now_or_never().is_none());
    held.settle(false).await;
    let (first, second) = tokio::join!(waits, second);
    first.unwrap();
    assert_eq!(second.unwrap_err().refusal().code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn who_has_asked_beside_is_told_of_the_one_that_has_won_meanwhile() {
    for on_store_error in [OnStoreError::Refuse, OnStoreError::Run] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy().on_store_error(on_store_error));
        // Of the first call: a try that is lost, and one that is late.
        store.next(Op::Claim, Fault::Hang);
        store.next(Op::Claim, Fault::Delay(millis(500)));
        // Of the second one.
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
                "two bodies at once, one of them with the key"
            );
            Ok(())
        };
        let (first, second) = tokio::join!(guarded.run(1, first), guarded.run(1, second));
        first.unwrap();
        assert_eq!(second.unwrap_err().refusal().code(), "in_progress");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_here_is_woken_when_an_operator_frees_the_key() {
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
async fn who_looks_at_a_grounded_call_late_is_still_told_of_its_end() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().wait(secs(5)));
    let elsewhere = guarded.elsewhere();
    // An operator is to free the key of a call elsewhere.
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
async fn a_claim_that_nobody_looked_at_in_time_is_no_trouble_of_the_store_for_others() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)).lease(millis(100)));
    store.next(Op::Claim, Fault::Delay(millis(50)));
    let mut frozen = Box::pin(guarded.run::<()>(1, async { panic!("its lease is over") }));
    assert!(frozen.as_mut().now_or_never().is_none());
    let late = async {
        sleep(millis(200)).await;
        let refused = frozen.await.unwrap_err().refusal();
        assert!(refused.is_unavailable(), "{refused:?}");
    };
    let beside = guarded.run(1, async { Ok(()) });
    let (beside, ()) = tokio::join!(beside, late);
    let told = beside.map_err(|failed| failed.refusal().is_unavailable());
    assert_ne!(told, Err(true));
}
