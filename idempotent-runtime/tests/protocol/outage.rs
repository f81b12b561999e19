//! A store that is away for longer than a caller waits.

use std::time::Duration;

use idempotent_runtime::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, Policy, Release, StoreErrorKind};
use tokio::time::{Instant, sleep};

use crate::guarded::{Guarded, forever, millis, secs, yielding};
use crate::log_capture::LogCapture;

const AWAY: Fault = Fault::Fail(StoreErrorKind::NotApplied);
const TTL: Duration = secs(300);

fn policy() -> Policy {
    Policy::new(TTL).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_left_is_removed_as_soon_as_the_store_is_back() {
    for outage in [secs(3), secs(50)] {
        let log = LogCapture::start();
        let store = FaultyStore::new(MemoryStore::new());
        let policy = Policy::new(secs(60)).release(Release::Always);
        let guarded = Guarded::on(store.clone(), policy);
        store.next(Op::Claim, Fault::LoseReply);
        store.always_all(AWAY);
        let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
        assert!(refused.is_unavailable());
        sleep(outage).await;
        store.heal();
        assert!(guarded.stands(1).await.is_some());
        let back = Instant::now();
        guarded.settled().await;
        assert_eq!(guarded.stands(1).await, None, "after {outage:?}");
        assert!(back.elapsed() <= secs(4), "{:?}", back.elapsed());
        assert_eq!(log.errors(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_left_is_given_up_quietly_when_its_lease_is_over() {
    let log = LogCapture::start();
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::LoseReply);
    store.always_all(AWAY);
    let begun = Instant::now();
    guarded.run(1, forever()).await.unwrap_err();
    guarded.settled().await;
    let lasted = begun.elapsed();
    assert!(lasted >= secs(8) && lasted <= secs(12), "{lasted:?}");
    assert_eq!(log.errors(), Vec::<String>::new());
}

/// A success whose completion cannot be sent, and is not by the time that its claim is gone.
async fn unrecorded_success(guarded: &Guarded, store: &FaultyStore<MemoryStore>) {
    let body = async {
        store.always_all(AWAY);
        yielding(Ok(7)).await
    };
    assert_eq!(guarded.run(1, body).await.unwrap(), 7);
    sleep(secs(20)).await;
    let memory = Guarded {
        store: std::sync::Arc::new(store.inner().clone()),
        ..guarded.clone()
    };
    assert_eq!(memory.stands(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_success_is_recorded_when_the_store_is_back_after_the_lease() {
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
async fn a_success_that_is_recorded_late_leaves_the_next_holder_alone() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    unrecorded_success(&guarded, &store).await;
    let elsewhere = Guarded::on(store.inner().clone(), policy());
    let next = elsewhere.call(1).claim().await.unwrap();
    let standing = elsewhere.stands(1).await.unwrap().value;
    store.heal();
    guarded.settled().await;
    assert_eq!(guarded.stands(1).await.unwrap().value, standing);
    next.settle(false).await;
    assert_eq!(guarded.stands(1).await, None, "it could still release");
}

#[tokio::test(start_paused = true)]
async fn a_success_is_given_up_after_its_ttl_or_an_hour() {
    for (ttl, given_up) in [(secs(100), secs(100)), (secs(86_400), secs(3600))] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), Policy::new(ttl).lease(secs(10)));
        let begun = Instant::now();
        let body = async {
            store.always_all(AWAY);
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
async fn permissions_that_are_wrong_for_a_moment_cost_no_record() {
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
        let standing = guarded.stands(1).await;
        let done = standing.is_some_and(|entry| entry.value.starts_with(b"idem1 D"));
        assert_eq!(done, outcome.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn permissions_that_are_wrong_for_a_moment_cost_no_lease() {
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
async fn what_the_store_said_is_told_when_the_last_try_is_cut_short() {
    let store = FaultyStore::new(MemoryStore::new());
    store.next(Op::Claim, Fault::Fail(StoreErrorKind::Unknown));
    store.always(Op::Claim, Fault::Hang);
    let guarded = Guarded::on(store.clone(), policy());
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    let told = format!("{refused:?}");
    assert!(told.contains("a fault that the test injected"), "{told}");

    // What it said of another send does not say that this one was not applied.
    store.next(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    let refused = guarded.run(2, forever()).await.unwrap_err().refusal();
    let told = format!("{refused:?}");
    assert!(!told.contains("a fault that the test injected"), "{told}");
}
