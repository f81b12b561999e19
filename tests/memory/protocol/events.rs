//! The events of calls: one end for each call, and the other events.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::private::{Call, Endpoint};
use idempotent_runtime::store::Bytes;
use idempotent_runtime::{
    Error, Event, EventKind, Idempotency, MemoryStore, OnLeaseLost, OnStoreError, Policy, Release,
    Renew, Store, StoreErrorKind,
};
use tokio::time::sleep;

use crate::protocol::guarded::{Guarded, millis, never, secs, yielding};
use crate::protocol::observed::Observed;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

fn observed_on(store: impl Store, policy: Policy) -> (Guarded, Observed) {
    let observed = Observed::default();
    (observed.on(&Guarded::on(store, policy)), observed)
}

/// The first call, with this payload.
fn with_payload(guarded: &Guarded, payload: u64) -> Call {
    let mut call = guarded.call(1);
    call.payload(&payload);
    call
}

fn observed(policy: Policy) -> (Guarded, Observed) {
    observed_on(MemoryStore::new(), policy)
}

#[tokio::test(start_paused = true)]
async fn calls_emit_executed_or_failed_and_duplicates_emit_their_own_events() {
    let (guarded, observed) = observed(policy());
    guarded
        .run(1, yielding(Err::<(), _>(())))
        .await
        .unwrap_err();
    assert_eq!(observed.take(), ["failed"]);
    let body = async {
        guarded.run(1, yielding(Ok(()))).await.unwrap_err();
        guarded
            .elsewhere()
            .run(1, yielding(Ok(())))
            .await
            .unwrap_err();
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    assert_eq!(
        observed.take(),
        ["in_progress", "executed"],
        "the other handle has no observer"
    );
    guarded.run(1, yielding(Ok(()))).await.unwrap_err();
    with_payload(&guarded, 1).claim().await.unwrap_err();
    assert_eq!(observed.take(), ["done", "done"]);
}

#[tokio::test(start_paused = true)]
async fn refusals_for_a_record_emit_taken_or_mismatch() {
    let (guarded, observed) = observed(policy().release(Release::Never));
    let guarded = Guarded {
        policy: Policy::new(secs(60)).release(Release::Never),
        ..guarded
    };
    let held = with_payload(&guarded, 1).claim().await.unwrap();
    held.settle(true).await;
    with_payload(&guarded, 1).claim().await.unwrap_err();
    with_payload(&guarded, 2).claim().await.unwrap_err();
    assert_eq!(observed.take(), ["executed", "taken", "mismatch"]);
}

#[tokio::test(start_paused = true)]
async fn a_replay_emits_replayed_after_the_result_was_read() {
    let (guarded, observed) = observed(policy());
    guarded.replaying(1, yielding(Ok(7))).await.unwrap();
    guarded.replaying(1, yielding(Ok(8))).await.unwrap();
    assert_eq!(observed.take(), ["executed", "replayed"]);
    guarded
        .replaying(1, yielding(Ok(String::new())))
        .await
        .unwrap_err();
    assert_eq!(observed.take(), ["result_unavailable"]);
    guarded.run(1, yielding(Ok(()))).await.unwrap_err();
    assert_eq!(observed.take(), ["done"]);
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_result_emits_one_event() {
    let (guarded, observed) = observed(policy());
    guarded.replaying(1, yielding(Ok(7_u64))).await.unwrap();
    let body = async { Ok(String::new()) };
    let refused = guarded.replaying(1, body).await.unwrap_err();
    assert_eq!(refused.code(), "result_unavailable");
    assert_eq!(observed.take(), ["executed", "result_unavailable"]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_not_stored_emits_not_kept_after_the_end() {
    let (guarded, observed) = observed(policy());
    let pairs = std::collections::BTreeMap::from([((1, 2), 3)]);
    guarded
        .replaying(1, yielding(Ok(pairs.clone())))
        .await
        .unwrap();
    assert_eq!(observed.take(), ["executed", "not_kept"]);
    guarded.replaying(1, yielding(Ok(pairs))).await.unwrap_err();
    assert_eq!(observed.take(), ["result_unavailable"]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_emits_not_kept_after_the_end() {
    let (guarded, observed) = observed(policy());
    let large = "x".repeat(2 * 1024 * 1024);
    guarded.replaying(1, async { Ok(large) }).await.unwrap();
    assert_eq!(observed.take(), ["executed", "not_kept"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_emits_waited_before_its_end() {
    let (guarded, observed) = observed(policy().wait(secs(5)));
    let body = async {
        sleep(secs(1)).await;
        Ok(7)
    };
    let waits = async {
        guarded.replaying(1, yielding(Ok(8))).await.unwrap();
    };
    let (first, ()) = tokio::join!(guarded.replaying(1, body), waits);
    first.unwrap();
    assert_eq!(observed.take(), ["executed", "waited", "replayed"]);
    let _held = guarded.elsewhere().call(2).claim().await.unwrap();
    guarded.call(2).claim().await.unwrap_err();
    assert_eq!(observed.take(), ["waited", "in_progress"]);
    guarded.call(1).claim().await.unwrap_err();
    assert_eq!(observed.take(), ["done"], "the call did not wait");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_emits_waited_once_and_one_end() {
    for elsewhere in [false, true] {
        let (observed, first) = (
            Observed::default(),
            Guarded::in_memory(policy().wait(secs(5))),
        );
        let here = observed.on(&first);
        let first = if elsewhere { first } else { here.clone() };
        let body = async {
            sleep(secs(1)).await;
            Ok(7_u64)
        };
        let (_, second) = tokio::join!(first.replaying(1, body), here.replaying(1, never::<u64>()));
        assert_eq!(second.unwrap(), 7);
        let mut observed = observed.take();
        observed.retain(|kind| kind != "executed");
        assert_eq!(observed, ["waited", "replayed"], "{elsewhere}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_that_is_answered_without_a_pause_does_not_emit_waited() {
    let store = FaultyStore::new(MemoryStore::new());
    let (guarded, observed) = observed_on(store.clone(), policy().wait(secs(5)));
    store.next(Op::Claim, Fault::Delay(millis(10)));
    store.next(Op::Replace, Fault::Delay(millis(10)));
    let mut first = pin!(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = pin!(guarded.call(1).claim());
    assert!(second.as_mut().now_or_never().is_none());
    // The first call ends before the second call is polled again.
    let held = first.await.unwrap();
    held.settle(true).await;
    assert_eq!(second.await.unwrap_err().error().code(), "already_done");
    assert_eq!(observed.take(), ["executed", "done"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_emits_cancelled_at_every_stage() {
    let store = FaultyStore::new(MemoryStore::new());
    let (guarded, observed) = observed_on(store.clone(), policy().wait(secs(5)));
    // While claiming, and while retrying.
    for fault in [Fault::Hang, Fault::LoseReply] {
        store.always(Op::Claim, fault);
        let mut claim = Box::pin(guarded.call(1).claim());
        assert!(claim.as_mut().now_or_never().is_none());
        drop(claim);
        store.heal();
        guarded.settled().await;
        assert_eq!(observed.take(), ["cancelled"]);
    }
    // While following, and while waiting for another process.
    let (here, elsewhere) = (
        guarded.call(2).claim().await,
        guarded.elsewhere().call(3).claim().await,
    );
    for id in [2, 3] {
        let mut claim = Box::pin(guarded.call(id).claim());
        assert!(claim.as_mut().now_or_never().is_none());
        drop(claim);
        assert_eq!(observed.take(), ["cancelled"]);
    }
    drop(elsewhere);
    // In the body.
    drop(here);
    assert_eq!(observed.take(), ["cancelled"]);
    // While settling. The end is known, so it is emitted.
    store.always(Op::Replace, Fault::Hang);
    let mut run = Box::pin(guarded.run(4, async { Ok(()) }));
    assert!(run.as_mut().now_or_never().is_none());
    drop(run);
    assert_eq!(observed.take(), ["executed"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_claiming_or_waiting_emits_cancelled_once() {
    let store = FaultyStore::new(MemoryStore::new());
    let observed = Observed::default();
    let there = Guarded::on(store.clone(), policy().wait(secs(5)));
    let here = observed.on(&there);
    // Alone.
    store.next(Op::Claim, Fault::Delay(millis(10)));
    let mut alone = Box::pin(here.call(2).claim());
    assert!(alone.as_mut().now_or_never().is_none());
    drop(alone);
    assert_eq!(observed.take(), ["cancelled"]);
    // Behind a waiting call of the same process, and behind a call of another process.
    let _held = there.call(1).claim().await.unwrap();
    let mut first = Box::pin(here.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(here.call(1).claim());
    assert!(second.as_mut().now_or_never().is_none());
    drop(second);
    assert_eq!(observed.take(), ["cancelled"]);
    drop(first);
    assert_eq!(observed.take(), ["cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_emits_overrun_before_the_end() {
    for (on_lease_lost, end) in [
        (OnLeaseLost::Stop, "lease_lost"),
        (OnLeaseLost::Continue, "executed"),
    ] {
        let (guarded, observed) = observed(policy().renew(Renew::No).on_lease_lost(on_lease_lost));
        let body = async {
            sleep(secs(20)).await;
            Ok(())
        };
        let _ = guarded.run(1, body).await;
        assert_eq!(observed.take(), ["overrun", end]);
    }
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_store_emit_their_events() {
    let store = FaultyStore::new(MemoryStore::new());
    let (guarded, observed) = observed_on(store.clone(), policy());
    store.always(Op::Claim, Fault::Hang);
    guarded.run(1, yielding(Ok(()))).await.unwrap_err();
    assert_eq!(observed.take(), ["store_error"]);
    let unguarded = Guarded {
        policy: policy().on_store_error(OnStoreError::Run),
        ..guarded.clone()
    };
    unguarded.run(2, yielding(Ok(()))).await.unwrap();
    assert_eq!(observed.take(), ["unguarded", "executed"]);
    store.heal();
    guarded.settled().await;
    observed.take();

    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let body = async {
        sleep(secs(5)).await;
        store.heal();
        Ok(())
    };
    guarded.run(3, body).await.unwrap();
    assert_eq!(observed.take(), ["renewal_failed", "executed"]);

    store.always(Op::Replace, Fault::Fail(StoreErrorKind::Misconfigured));
    guarded.run(4, yielding(Ok(()))).await.unwrap();
    assert_eq!(observed.take(), ["executed", "unconfirmed"]);
    while guarded.idempotency.drain(secs(60)).await.is_err() {}
    assert!(observed.take().contains(&"unrecorded".to_owned()));
    store.heal();

    store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    guarded.run(5, yielding(Ok(()))).await.unwrap();
    assert_eq!(observed.take(), ["executed", "not_kept"]);

    let key = guarded.key(6);
    guarded
        .store
        .claim(&key, &Bytes::from("foreign"), secs(60))
        .await
        .unwrap();
    guarded.run(6, yielding(Ok(()))).await.unwrap_err();
    assert_eq!(observed.take(), ["store_error"]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_after_the_body_emits_nothing() {
    let store = FaultyStore::new(MemoryStore::new());
    let (guarded, observed) = observed_on(store.clone(), policy().lease(secs(10)));
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    // The first renewal is due after a third of the lease.
    sleep(secs(8)).await;
    store.heal();
    guarded.settled().await;
    assert_eq!(observed.take(), ["executed", "unconfirmed", "confirmed"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_call_emits_invalid() {
    let (guarded, observed) = observed(Policy::new(secs(0)));
    guarded.call(1).claim().await.unwrap_err();
    assert_eq!(observed.take(), ["invalid"]);
    struct Broken;
    impl serde::Serialize for Broken {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("on purpose"))
        }
    }
    let handle = Some(&guarded.idempotency);
    let call = || Call::new(Endpoint::named("test.pay"), policy(), handle);
    let mut with_broken_key = call();
    with_broken_key.part(&Broken);
    with_broken_key.claim().await.unwrap_err();
    let mut with_broken_payload = call();
    with_broken_payload.part(&1);
    with_broken_payload.payload(&Broken);
    with_broken_payload.part(&2);
    with_broken_payload.claim().await.unwrap_err();
    assert_eq!(observed.take(), ["invalid", "invalid"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_make_calls() {
    let store = MemoryStore::new();
    let inner = Idempotency::new(store.clone());
    let idempotency = Idempotency::builder(store)
        .observer(move |event: &Event<'_>| {
            if event.kind() == EventKind::Executed {
                let call = inner.call("audit").key(event.endpoint()).ttl(secs(1));
                let audited = call.run(async { Ok::<_, Error>(()) }).now_or_never();
                assert!(audited.is_some_and(|audited| audited.is_ok()));
            }
        })
        .build()
        .unwrap();
    let call = idempotency.call("orders.pay").key(&1).ttl(secs(60));
    call.run(async { Ok::<_, Error>(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ends_and_waits_report_their_duration() {
    let took = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&took);
    let idempotency = Idempotency::builder(MemoryStore::new())
        .observer(move |event: &Event<'_>| {
            let took = event.took().unwrap();
            sink.lock().unwrap().push((event.kind(), took.as_secs()));
        })
        .build()
        .unwrap();
    let run = |id: u64| {
        let body = async {
            sleep(secs(2) + millis(1)).await;
            Ok::<_, Error>(())
        };
        idempotency
            .call("orders.pay")
            .key(&id)
            .ttl(secs(60))
            .wait(secs(5))
            .run(body)
    };
    let (first, second) = tokio::join!(run(1), run(1));
    assert!(first.is_ok() && second.is_err());
    let took = took.lock().unwrap().clone();
    let expected = [
        (EventKind::Executed, 2),
        (EventKind::Waited, 2),
        (EventKind::Done, 2),
    ];
    assert_eq!(took, expected);
}
