//! Outcomes that the store has not taken in time: their process gives them to equal calls, also after the lease.

use std::future::ready;

use futures_util::FutureExt as _;
use futures_util::future::join3;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{
    Error, MemoryStore, OnLeaseLost, OnStoreError, Policy, Renew, Settle, StoreErrorKind,
};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, never, run, secs, yielding};
use crate::protocol::observed::Observed;
use crate::protocol::unknown_outcome::{PayError, pay};

const ENDS: [Settle; 2] = [Settle::Await, Settle::Background];

fn policy() -> Policy {
    Policy::new(secs(300)).lease(secs(10))
}

/// Bodies go on after their lease.
fn continuing() -> Policy {
    policy()
        .renew(Renew::No)
        .on_lease_lost(OnLeaseLost::Continue)
}

/// A body that lasts twice as long as its lease.
async fn beyond_the_lease() -> Result<(), ()> {
    sleep(secs(20)).await;
    Ok(())
}

/// An endpoint whose store claims, but takes no end. The claim of a call that has ended expires with its lease.
fn store_without_ends(policy: Policy) -> (FaultyStore<MemoryStore>, Guarded) {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy);
    store.always(Op::Replace, Fault::Hang);
    (store, guarded)
}

/// Runs a call, and waits until its claim has expired.
async fn unrecorded(guarded: &Guarded) {
    let paid = guarded.replaying(1, ready(Ok::<_, Error>(7_u32))).await;
    assert_eq!(paid.unwrap(), 7);
    sleep(secs(20)).await;
    assert_eq!(guarded.entry(1).await, None, "the claim has expired");
}

async fn code(guarded: &Guarded) -> &'static str {
    let refused = guarded.run(1, forever()).await.unwrap_err();
    refused.refusal().code()
}

#[tokio::test(start_paused = true)]
async fn equal_calls_of_the_process_get_the_outcome_after_the_lease() {
    for settle in ENDS {
        let (store, guarded) = store_without_ends(policy().settle(settle));
        let observed = Observed::default();
        let guarded = observed.on(&guarded);
        unrecorded(&guarded).await;
        assert_eq!(observed.take(), ["executed", "unconfirmed"]);
        assert_eq!(code(&guarded).await, "already_done");
        let replayed = guarded.replaying(1, never::<u32>()).await;
        assert_eq!(replayed.unwrap(), 7);
        // The store does not answer at all.
        store.always_all(Fault::Hang);
        assert_eq!(code(&guarded).await, "already_done");
        store.heal();
        observed.take();
        guarded.settled().await;
        assert_eq!(observed.take(), ["confirmed"]);
        assert_eq!(guarded.state_of(1).await, b'D');
        assert_eq!(code(&guarded.elsewhere()).await, "already_done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_gets_the_outcome_when_the_deadline_is_over() {
    for settle in ENDS {
        let (_store, guarded) = store_without_ends(policy().settle(settle).wait(secs(60)));
        let began = Instant::now();
        let first = guarded.replaying(1, yielding(Ok::<_, Error>(7_u32)));
        let second = guarded.replaying(1, never::<u32>());
        let (first, second) = tokio::join!(first, second);
        assert_eq!((first.unwrap(), second.unwrap()), (7, 7));
        assert!(began.elapsed() <= secs(2), "{:?}", began.elapsed());
    }
}

/// How the call of another process ends that has claimed the key after the lease.
#[derive(Debug, PartialEq)]
enum OtherEnd {
    Fails,
    Dies,
    Succeeds,
}

#[tokio::test(start_paused = true)]
async fn a_call_of_another_process_does_not_make_the_process_forget() {
    for (settle, end) in [
        (Settle::Await, OtherEnd::Fails),
        (Settle::Background, OtherEnd::Fails),
        (Settle::Await, OtherEnd::Dies),
        (Settle::Await, OtherEnd::Succeeds),
    ] {
        let (store, guarded) = store_without_ends(policy().settle(settle));
        let observed = Observed::default();
        let guarded = observed.on(&guarded);
        unrecorded(&guarded).await;
        let other = guarded.elsewhere().call(1).claim().await.unwrap();
        let claim = guarded.entry(1).await.unwrap().value;
        store.heal();
        // The outcome was sent again, and the claim was there.
        sleep(secs(9)).await;
        assert_eq!(guarded.entry(1).await.unwrap().value, claim);
        assert_eq!(code(&guarded).await, "already_done", "{end:?}");
        assert_eq!(guarded.replaying(1, never::<u32>()).await.unwrap(), 7);
        assert!(!observed.take().contains(&"unrecorded".to_owned()));
        match end {
            OtherEnd::Dies => std::mem::forget(other),
            OtherEnd::Fails => _ = other.settle(false).await,
            OtherEnd::Succeeds => _ = other.settle(true).await,
        }
        sleep(secs(40)).await;
        let last = observed.take();
        if end == OtherEnd::Succeeds {
            assert_eq!(last, ["unrecorded"]);
        } else {
            assert_eq!(last, ["confirmed"], "{end:?}");
            assert_eq!(guarded.replaying(1, never::<u32>()).await.unwrap(), 7);
        }
        assert_eq!(code(&guarded.elsewhere()).await, "already_done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_follows_a_lost_lease_does_not_keep_the_caller() {
    let guarded = Guarded::in_memory(continuing());
    let observed = Observed::default();
    let guarded = observed.on(&guarded);
    let elsewhere = guarded.elsewhere();
    let mut first = Box::pin(guarded.run(1, beyond_the_lease()));
    timeout(secs(19), &mut first).await.unwrap_err();
    let other = elsewhere.call(1).claim().await.unwrap();
    let resumed = Instant::now();
    first.await.unwrap();
    assert!(
        resumed.elapsed() <= millis(1_100),
        "{:?}",
        resumed.elapsed()
    );
    assert_eq!(observed.take(), ["overrun", "executed", "unconfirmed"]);
    assert_eq!(code(&guarded).await, "already_done");
    other.settle(false).await;
    assert_eq!(code(&guarded).await, "already_done");
    observed.take();
    guarded.settled().await;
    assert_eq!(observed.take(), ["confirmed"]);
    assert_eq!(code(&elsewhere).await, "already_done");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_after_a_lost_lease_is_shown_although_an_equal_call_waits() {
    let guarded = Guarded::in_memory(continuing());
    let elsewhere = guarded.elsewhere();
    let mut first = Box::pin(guarded.run(1, beyond_the_lease()));
    timeout(secs(19), &mut first).await.unwrap_err();
    let other = elsewhere.call(1).claim().await.unwrap();
    let mut waiting = guarded.clone();
    waiting.policy = guarded.policy.wait(secs(3600));
    let waiting = tokio::spawn(async move { code(&waiting).await });
    yield_now().await;
    first.await.unwrap();
    assert_eq!(code(&guarded).await, "already_done");
    other.settle(false).await;
    assert_eq!(code(&guarded).await, "already_done");
    assert_eq!(waiting.await.unwrap(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_claims_again_stops_at_an_outcome_of_its_process() {
    for on_store_error in [OnStoreError::Refuse, OnStoreError::Run] {
        let policy = continuing().on_store_error(on_store_error);
        let (store, guarded) = store_without_ends(policy);
        let first = guarded.run(1, async {
            store.always(Op::Claim, Fault::Fail(StoreErrorKind::Unknown));
            sleep(secs(20)).await;
            Ok(())
        });
        let asking = async {
            sleep(millis(20_500)).await;
            code(&guarded).await
        };
        let healing = async {
            sleep(millis(21_050)).await;
            store.heal();
            store.always(Op::Replace, Fault::Hang);
        };
        let all = timeout(secs(30), join3(first, asking, healing));
        let (first, asking, ()) = all.await.expect("no body runs");
        first.unwrap();
        assert_eq!(asking, "already_done");
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_refused() {
    let (_store, guarded) = store_without_ends(policy());
    let call = |amount: u64| {
        let mut call = guarded.call(1);
        call.payload(&amount);
        call
    };
    run(call(5), yielding(Ok(()))).await.unwrap();
    sleep(secs(20)).await;
    let refused = run(call(6), forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "payload_mismatch");
    let refused = run(call(5), forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_stays_unknown() {
    let (_store, guarded) = store_without_ends(policy());
    let observed = Observed::default();
    let guarded = observed.on(&guarded);
    pay(&guarded, ready(Err(PayError::Timeout))).await;
    let events = ["failed", "outcome_unknown", "unconfirmed"];
    assert_eq!(observed.take(), events);
    sleep(secs(20)).await;
    assert_eq!(code(&guarded).await, "outcome_unknown");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_runs_without_its_store_repeats_no_success() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().on_store_error(OnStoreError::Run));
    store.always_all(Fault::Fail(StoreErrorKind::Unknown));
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    sleep(secs(2)).await;
    assert_eq!(code(&guarded).await, "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_again_after_the_ttl() {
    let (_store, guarded) = store_without_ends(policy());
    unrecorded(&guarded).await;
    guarded.idempotency.drain(secs(400)).await.unwrap();
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_again_after_an_operator_has_freed_its_key() {
    let (store, guarded) = store_without_ends(policy());
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    assert_eq!(code(&guarded).await, "already_done");
    let peek = guarded.idempotency.peek("test.pay", &(1_u64,)).await;
    let peek = peek.unwrap().unwrap();
    assert!(guarded.idempotency.forget(&peek).await.unwrap());
    store.heal();
    // The outcome that the operator has removed is not stored again.
    guarded.settled().await;
    assert_eq!(guarded.entry(1).await, None);
    guarded.run(1, ready(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_lease_may_end_while_the_caller_still_waits_for_the_store() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().lease(millis(300)));
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let body = async {
        sleep(millis(250)).await;
        Ok(())
    };
    let second = async {
        sleep(millis(700)).await;
        assert_eq!(guarded.entry(1).await, None, "the claim has expired");
        code(&guarded).await
    };
    let (first, second) = tokio::join!(guarded.run(1, body), second);
    first.unwrap();
    assert_eq!(second, "in_progress", "its caller has no answer yet");
    assert_eq!(code(&guarded).await, "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_that_asks_the_store_itself_gets_the_outcome_of_its_process() {
    let (store, guarded) = store_without_ends(policy().wait(secs(60)));
    store.next(Op::Claim, Fault::ApplyThenHang);
    let mut first = Box::pin(guarded.run(1, ready(Ok(()))));
    assert!(first.as_mut().now_or_never().is_none());
    // The first call is not polled, so the second call asks the store.
    let mut second = Box::pin(guarded.run(1, forever()));
    timeout(millis(500), &mut second).await.unwrap_err();
    let (first, second) = tokio::join!(first, timeout(secs(30), second));
    first.unwrap();
    let refused = second.unwrap().unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_claimed_its_key_beside_an_equal_call_gives_its_outcome() {
    let (store, guarded) = store_without_ends(policy());
    store.next(Op::Claim, Fault::Hang);
    let mut not_polled = Box::pin(guarded.run(1, forever()));
    assert!(not_polled.as_mut().now_or_never().is_none());
    let body = async {
        sleep(secs(5)).await;
        Ok(())
    };
    let drops = async {
        sleep(secs(4)).await;
        drop(not_polled);
    };
    let (second, ()) = tokio::join!(guarded.run(1, body), drops);
    second.unwrap();
    sleep(secs(20)).await;
    assert_eq!(guarded.entry(1).await, None, "the claim has expired");
    assert_eq!(code(&guarded).await, "already_done");
}
