//! Outages that last longer than a caller waits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{Idempotency, MemoryStore, OnStoreError, Policy, Release, StoreErrorKind};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

use crate::protocol::guarded::{Failed, Guarded, forever, millis, secs, yielding};
use support::log_capture::LogCapture;

const UNAVAILABLE: Fault = Fault::Fail(StoreErrorKind::NotApplied);
const TTL: Duration = secs(300);

fn policy() -> Policy {
    Policy::new(TTL).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_claim_is_removed_when_the_store_recovers() {
    for outage in [secs(3), secs(50)] {
        let log = LogCapture::start();
        let store = FaultyStore::new(MemoryStore::new());
        let policy = Policy::new(secs(60)).release(Release::Always);
        let guarded = Guarded::on(store.clone(), policy);
        store.next(Op::Claim, Fault::LoseReply);
        store.always_all(UNAVAILABLE);
        let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
        assert!(refused.is_unavailable());
        sleep(outage).await;
        store.heal();
        assert!(guarded.entry(1).await.is_some());
        let back = Instant::now();
        guarded.settled().await;
        assert_eq!(guarded.entry(1).await, None, "after {outage:?}");
        assert!(back.elapsed() <= secs(4), "{:?}", back.elapsed());
        assert_eq!(log.errors(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_claim_is_dropped_without_an_error_when_its_lease_expires() {
    let log = LogCapture::start();
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::LoseReply);
    store.always_all(UNAVAILABLE);
    let begun = Instant::now();
    guarded.run(1, forever()).await.unwrap_err();
    guarded.settled().await;
    let lasted = begun.elapsed();
    assert!(lasted >= secs(8) && lasted <= secs(12), "{lasted:?}");
    assert_eq!(log.errors(), Vec::<String>::new());
}

/// Runs a call whose completion fails until its claim has expired.
async fn unrecorded_success(guarded: &Guarded, store: &FaultyStore<MemoryStore>) {
    let body = async {
        store.always_all(UNAVAILABLE);
        yielding(Ok(7)).await
    };
    assert_eq!(guarded.run(1, body).await.unwrap(), 7);
    sleep(secs(20)).await;
    let memory = Guarded {
        store: std::sync::Arc::new(store.inner().clone()),
        ..guarded.clone()
    };
    assert_eq!(memory.entry(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_success_is_recorded_when_the_store_recovers_after_the_lease() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    unrecorded_success(&guarded, &store).await;
    store.heal();
    guarded.settled().await;
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
    let taken = guarded.taken_for(1).await.unwrap();
    assert!(taken <= TTL, "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_success_that_is_recorded_late_does_not_affect_the_next_holder() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    unrecorded_success(&guarded, &store).await;
    let elsewhere = Guarded::on(store.inner().clone(), policy());
    let next = elsewhere.call(1).claim().await.unwrap();
    let stored = elsewhere.entry(1).await.unwrap().value;
    store.heal();
    sleep(secs(9)).await;
    assert_eq!(guarded.entry(1).await.unwrap().value, stored);
    next.settle(false).await;
    assert_eq!(
        guarded.entry(1).await,
        None,
        "the next holder could release its claim"
    );
}

#[tokio::test(start_paused = true)]
async fn recording_a_success_is_tried_for_the_ttl_but_at_most_an_hour() {
    for (ttl, given_up) in [(secs(100), secs(100)), (secs(86_400), secs(3600))] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), Policy::new(ttl).lease(secs(10)));
        let begun = Instant::now();
        let body = async {
            store.always_all(UNAVAILABLE);
            yielding(Ok(())).await
        };
        guarded.run(1, body).await.unwrap();
        while guarded.idempotency.drain(secs(1)).await.is_err() {}
        let lasted = begun.elapsed();
        assert!(
            lasted + secs(5) >= given_up && lasted <= given_up + secs(15),
            "ttl {ttl:?}: {lasted:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_misconfiguration_loses_no_record() {
    for outcome in [Ok(()), Err(())] {
        let store = CountingStore::new(FaultyStore::new(MemoryStore::new()));
        let guarded = Guarded::on(store.clone(), policy());
        for op in [Op::Replace, Op::Remove] {
            let fault = Fault::Fail(StoreErrorKind::Misconfigured);
            store.inner().always(op, fault);
        }
        let begun = Instant::now();
        let ended = guarded.run(1, yielding(outcome)).await;
        assert_eq!(ended.is_ok(), outcome.is_ok());
        assert_eq!(begun.elapsed(), millis(0), "its caller does not wait");
        sleep(secs(5)).await;
        store.inner().heal();
        guarded.settled().await;
        assert!(store.counts().total() < 40, "{:?}", store.counts());
        let stored = guarded.entry(1).await;
        let done = stored.is_some_and(|entry| entry.value.starts_with(b"idem2 D"));
        assert_eq!(done, outcome.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_misconfiguration_loses_no_lease() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let body = async {
        sleep(secs(3)).await;
        store.always(Op::Replace, Fault::Fail(StoreErrorKind::Misconfigured));
        sleep(secs(2)).await;
        store.heal();
        sleep(secs(20)).await;
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_cause_of_an_earlier_attempt_if_the_last_one_timed_out() {
    let store = FaultyStore::new(MemoryStore::new());
    store.next(Op::Claim, Fault::Fail(StoreErrorKind::Unknown));
    store.always(Op::Claim, Fault::Hang);
    let guarded = Guarded::on(store.clone(), policy());
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    let text = format!("{refused:?}");
    assert!(text.contains("a fault that the test injected"), "{text}");

    // An earlier `NotApplied` does not prove that the last attempt was not applied.
    store.next(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    let refused = guarded.run(2, forever()).await.unwrap_err().refusal();
    let text = format!("{refused:?}");
    assert!(!text.contains("a fault that the test injected"), "{text}");
}

/// The number of equal calls in a silent store.
const EQUAL: usize = 100;

fn silent_store() -> CountingStore<FaultyStore<MemoryStore>> {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Hang);
    CountingStore::new(store)
}

fn equal_calls(guarded: &Guarded) -> JoinSet<Result<(), Failed>> {
    let call = || {
        let guarded = guarded.clone();
        async move { guarded.run(1, yielding(Ok(()))).await }
    };
    (0..EQUAL).map(|_| call()).collect()
}

/// Starts equal calls behind a call that is then dropped.
async fn equal_calls_behind_a_dropped_call(guarded: &Guarded) -> JoinSet<Result<(), Failed>> {
    let mut dropped = Box::pin(guarded.call(1).claim());
    assert!(dropped.as_mut().now_or_never().is_none());
    let calls = equal_calls(guarded);
    yield_now().await;
    calls
}

#[tokio::test(start_paused = true)]
async fn equal_calls_leave_few_claims_in_a_silent_store() {
    for policy in [policy(), policy().wait(millis(300))] {
        let store = silent_store();
        let guarded = Guarded::on(store.clone(), policy);
        let begun = Instant::now();
        for refused in equal_calls(&guarded).join_all().await {
            assert!(refused.unwrap_err().refusal().is_unavailable());
        }
        let lasted = begun.elapsed();
        assert!(lasted <= millis(1100), "{lasted:?}");
        assert!(store.counts().claim <= 2, "{:?}", store.counts());
    }
}

/// The leader may ask for longer than its followers.
#[tokio::test(start_paused = true)]
async fn equal_calls_whose_time_is_over_are_refused_behind_a_call_that_asks_on() {
    let store = silent_store();
    let mut leader = Guarded::on(store.clone(), policy().wait(secs(60)));
    leader.idempotency = Idempotency::builder(Arc::clone(&leader.store))
        .deadline(millis(800))
        .build()
        .unwrap();
    let asking = leader.clone();
    let asking = tokio::spawn(async move { asking.run(1, forever()).await });
    sleep(millis(100)).await;
    let mut follower = leader.clone();
    follower.policy = policy().wait(millis(200));
    let begun = Instant::now();
    for refused in equal_calls(&follower).join_all().await {
        assert!(refused.unwrap_err().refusal().is_unavailable());
    }
    let lasted = begun.elapsed();
    assert!(lasted <= millis(1250), "{lasted:?}");
    assert!(store.counts().claim <= 4, "{:?}", store.counts());
    asking.abort();
}

#[tokio::test(start_paused = true)]
async fn equal_calls_that_may_run_without_the_store_follow_until_their_time_is_over() {
    let store = silent_store();
    let policy = policy().wait(millis(300)).on_store_error(OnStoreError::Run);
    let guarded = Guarded::on(store.clone(), policy);
    let begun = Instant::now();
    let ended = equal_calls(&guarded).join_all().await;
    let successes = ended.iter().filter(|ended| ended.is_ok()).count();
    assert_eq!(successes, 1);
    let lasted = begun.elapsed();
    assert!(lasted <= millis(1100), "{lasted:?}");
    assert!(store.counts().claim <= 2, "{:?}", store.counts());
}

#[tokio::test(start_paused = true)]
async fn one_equal_call_replaces_a_dropped_call_in_a_silent_store() {
    for policy in [policy(), policy().wait(millis(700))] {
        let store = silent_store();
        let guarded = Guarded::on(store.clone(), policy);
        let calls = equal_calls_behind_a_dropped_call(&guarded).await;
        let begun = Instant::now();
        for refused in calls.join_all().await {
            assert!(refused.unwrap_err().refusal().is_unavailable());
        }
        let lasted = begun.elapsed();
        assert!(lasted <= millis(1300), "{lasted:?}");
        assert!(store.counts().claim <= 3, "{:?}", store.counts());
    }
}

#[tokio::test(start_paused = true)]
async fn an_equal_call_that_replaces_a_dropped_call_runs_when_the_store_answers() {
    let store = CountingStore::new(FaultyStore::new(MemoryStore::new()));
    store.inner().always(Op::Claim, Fault::Delay(millis(600)));
    store.inner().always(Op::Remove, Fault::Hang);
    let guarded = Guarded::on(store.clone(), policy().wait(secs(2)));
    let calls = equal_calls_behind_a_dropped_call(&guarded).await;
    let begun = Instant::now();
    let ended = calls.join_all().await;
    let lasted = begun.elapsed();
    let successes = ended.iter().filter(|ended| ended.is_ok()).count();
    assert_eq!(successes, 1);
    assert!(lasted < secs(1), "{lasted:?}");
    assert_eq!(store.counts().claim, 2, "{:?}", store.counts());
}
