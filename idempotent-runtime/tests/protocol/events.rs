//! What observers are told: one end for each call, and what else happened to it.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use idempotent_runtime::private::{Call, Endpoint};
use idempotent_runtime::store::Bytes;
use idempotent_runtime::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{
    Error, Event, EventKind, Idempotency, MemoryStore, OnLeaseLost, OnStoreError, Policy, Release,
    Renew, Store, StoreErrorKind,
};
use tokio::time::sleep;

use crate::guarded::{Guarded, millis, never, secs, yielding};
use crate::told::Told;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

fn told_on(store: impl Store, policy: Policy) -> (Guarded, Told) {
    let told = Told::default();
    (told.on(&Guarded::on(store, policy)), told)
}

fn told(policy: Policy) -> (Guarded, Told) {
    told_on(MemoryStore::new(), policy)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_runs_is_executed_or_failed_and_its_duplicates_are_told_apart() {
    let (guarded, told) = told(policy());
    guarded
        .run(1, yielding(Err::<(), _>(())))
        .await
        .unwrap_err();
    assert_eq!(told.take(), ["failed"]);
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
        told.take(),
        ["in_progress", "executed"],
        "the other handle has no observer"
    );
    guarded.run(1, yielding(Ok(()))).await.unwrap_err();
    guarded.call(1).payload(&1).claim().await.unwrap_err();
    assert_eq!(told.take(), ["done", "done"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_found_in_a_record_is_told_by_its_name() {
    let (guarded, told) = told(policy().release(Release::Never));
    let guarded = Guarded {
        policy: Policy::new(secs(60)).release(Release::Never),
        ..guarded
    };
    let held = guarded.call(1).payload(&1).claim().await.unwrap();
    held.settle(true).await;
    guarded.call(1).payload(&1).claim().await.unwrap_err();
    guarded.call(1).payload(&2).claim().await.unwrap_err();
    assert_eq!(told.take(), ["executed", "taken", "mismatch"]);
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_told_when_the_result_was_read() {
    let (guarded, told) = told(policy());
    guarded.replaying(1, yielding(Ok(7))).await.unwrap();
    guarded.replaying(1, yielding(Ok(8))).await.unwrap();
    assert_eq!(told.take(), ["executed", "replayed"]);
    guarded
        .replaying(1, yielding(Ok(String::new())))
        .await
        .unwrap_err();
    assert_eq!(told.take(), ["result_unavailable"]);
    guarded.run(1, yielding(Ok(()))).await.unwrap_err();
    assert_eq!(told.take(), ["done"]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_given_is_told_once() {
    let (guarded, told) = told(policy());
    guarded.replaying(1, yielding(Ok(7_u64))).await.unwrap();
    let body = async { Ok(String::new()) };
    let refused = guarded.replaying(1, body).await.unwrap_err();
    assert_eq!(refused.code(), "result_unavailable");
    assert_eq!(told.take(), ["executed", "result_unavailable"]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_not_kept_is_told_beside_the_end() {
    let (guarded, told) = told(policy());
    let pairs = std::collections::BTreeMap::from([((1, 2), 3)]);
    guarded
        .replaying(1, yielding(Ok(pairs.clone())))
        .await
        .unwrap();
    assert_eq!(told.take(), ["executed", "not_kept"]);
    guarded.replaying(1, yielding(Ok(pairs))).await.unwrap_err();
    assert_eq!(told.take(), ["result_unavailable"]);
}

#[tokio::test(start_paused = true)]
async fn that_a_result_is_too_large_is_told_beside_the_end() {
    let (guarded, told) = told(policy());
    let large = "x".repeat(2 * 1024 * 1024);
    guarded.replaying(1, async { Ok(large) }).await.unwrap();
    assert_eq!(told.take(), ["executed", "not_kept"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_says_so_whatever_came_of_it() {
    let (guarded, told) = told(policy().wait(secs(5)));
    let body = async {
        sleep(secs(1)).await;
        Ok(7)
    };
    let waits = async {
        guarded.replaying(1, yielding(Ok(8))).await.unwrap();
    };
    let (first, ()) = tokio::join!(guarded.replaying(1, body), waits);
    first.unwrap();
    assert_eq!(told.take(), ["executed", "waited", "replayed"]);
    let _held = guarded.elsewhere().call(2).claim().await.unwrap();
    guarded.call(2).claim().await.unwrap_err();
    assert_eq!(told.take(), ["waited", "in_progress"]);
    guarded.call(1).claim().await.unwrap_err();
    assert_eq!(told.take(), ["done"], "nothing was waited for");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_tells_so_once_and_ends_once() {
    for elsewhere in [false, true] {
        let (told, first) = (Told::default(), Guarded::in_memory(policy().wait(secs(5))));
        let here = told.on(&first);
        let first = if elsewhere { first } else { here.clone() };
        let body = async {
            sleep(secs(1)).await;
            Ok(7_u64)
        };
        let (_, second) = tokio::join!(first.replaying(1, body), here.replaying(1, never::<u64>()));
        assert_eq!(second.unwrap(), 7);
        let mut told = told.take();
        told.retain(|kind| kind != "executed");
        assert_eq!(told, ["waited", "replayed"], "{elsewhere}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_answered_with_the_first_call_has_not_waited() {
    let store = FaultyStore::new(MemoryStore::new());
    let (guarded, told) = told_on(store.clone(), policy().wait(secs(5)));
    store.next(Op::Claim, Fault::Delay(millis(10)));
    store.next(Op::Replace, Fault::Delay(millis(10)));
    let mut first = pin!(guarded.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = pin!(guarded.call(1).claim());
    assert!(second.as_mut().now_or_never().is_none());
    // It is answered and over before the second one looks again.
    let held = first.await.unwrap();
    held.settle(true).await;
    assert_eq!(second.await.unwrap_err().error().code(), "already_done");
    assert_eq!(told.take(), ["executed", "done"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_is_cancelled_wherever_it_was() {
    let store = FaultyStore::new(MemoryStore::new());
    let (guarded, told) = told_on(store.clone(), policy().wait(secs(5)));
    // While claiming, and while it is tried again.
    for fault in [Fault::Hang, Fault::LoseReply] {
        store.always(Op::Claim, fault);
        let mut claim = Box::pin(guarded.call(1).claim());
        assert!(claim.as_mut().now_or_never().is_none());
        drop(claim);
        store.heal();
        guarded.settled().await;
        assert_eq!(told.take(), ["cancelled"]);
    }
    // While it follows, and while it waits for another process.
    let (here, elsewhere) = (
        guarded.call(2).claim().await,
        guarded.elsewhere().call(3).claim().await,
    );
    for id in [2, 3] {
        let mut claim = Box::pin(guarded.call(id).claim());
        assert!(claim.as_mut().now_or_never().is_none());
        drop(claim);
        assert_eq!(told.take(), ["cancelled"]);
    }
    drop(elsewhere);
    // In the body.
    drop(here);
    assert_eq!(told.take(), ["cancelled"]);
    // While settling, the end is known.
    store.always(Op::Replace, Fault::Hang);
    let mut run = Box::pin(guarded.run(4, async { Ok(()) }));
    assert!(run.as_mut().now_or_never().is_none());
    drop(run);
    assert_eq!(told.take(), ["executed"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_claims_or_waits_is_told_as_cancelled_once() {
    let store = FaultyStore::new(MemoryStore::new());
    let told = Told::default();
    let there = Guarded::on(store.clone(), policy().wait(secs(5)));
    let here = told.on(&there);
    // Alone.
    store.next(Op::Claim, Fault::Delay(millis(10)));
    let mut alone = Box::pin(here.call(2).claim());
    assert!(alone.as_mut().now_or_never().is_none());
    drop(alone);
    assert_eq!(told.take(), ["cancelled"]);
    // Behind another one here, and behind one elsewhere.
    let _held = there.call(1).claim().await.unwrap();
    let mut first = Box::pin(here.call(1).claim());
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(here.call(1).claim());
    assert!(second.as_mut().now_or_never().is_none());
    drop(second);
    assert_eq!(told.take(), ["cancelled"]);
    drop(first);
    assert_eq!(told.take(), ["cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_told_at_once_and_the_end_when_it_comes() {
    for (on_lease_lost, end) in [
        (OnLeaseLost::Stop, "lease_lost"),
        (OnLeaseLost::Continue, "executed"),
    ] {
        let (guarded, told) = told(policy().renew(Renew::No).on_lease_lost(on_lease_lost));
        let body = async {
            sleep(secs(20)).await;
            Ok(())
        };
        let _ = guarded.run(1, body).await;
        assert_eq!(told.take(), ["overrun", end]);
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_with_the_store_is_told() {
    let store = FaultyStore::new(MemoryStore::new());
    let (guarded, told) = told_on(store.clone(), policy());
    store.always(Op::Claim, Fault::Hang);
    guarded.run(1, yielding(Ok(()))).await.unwrap_err();
    assert_eq!(told.take(), ["store_error"]);
    let unguarded = Guarded {
        policy: policy().on_store_error(OnStoreError::Run),
        ..guarded.clone()
    };
    unguarded.run(2, yielding(Ok(()))).await.unwrap();
    assert_eq!(told.take(), ["unguarded", "executed"]);
    store.heal();
    guarded.settled().await;
    told.take();

    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let body = async {
        sleep(secs(5)).await;
        store.heal();
        Ok(())
    };
    guarded.run(3, body).await.unwrap();
    assert_eq!(told.take(), ["renewal_failed", "executed"]);

    store.always(Op::Replace, Fault::Fail(StoreErrorKind::Misconfigured));
    guarded.run(4, yielding(Ok(()))).await.unwrap();
    assert_eq!(told.take(), ["executed"]);
    while guarded.idempotency.drain(secs(60)).await.is_err() {}
    assert!(told.take().contains(&"unrecorded".to_owned()));
    store.heal();

    store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    guarded.run(5, yielding(Ok(()))).await.unwrap();
    assert_eq!(told.take(), ["executed", "not_kept"]);

    let key = guarded.key(6);
    guarded
        .store
        .claim(&key, &Bytes::from("foreign"), secs(60))
        .await
        .unwrap();
    guarded.run(6, yielding(Ok(()))).await.unwrap_err();
    assert_eq!(told.take(), ["store_error"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_call_is_told_as_invalid() {
    let (guarded, told) = told(Policy::new(secs(0)));
    guarded.call(1).claim().await.unwrap_err();
    assert_eq!(told.take(), ["invalid"]);
    struct Broken;
    impl serde::Serialize for Broken {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("on purpose"))
        }
    }
    let handle = Some(&guarded.idempotency);
    let call = || Call::new(Endpoint::named("test.pay"), policy(), handle);
    call().part(&Broken).claim().await.unwrap_err();
    call()
        .part(&1)
        .payload(&Broken)
        .part(&2)
        .claim()
        .await
        .unwrap_err();
    assert_eq!(told.take(), ["invalid", "invalid"]);
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_come_back_to_the_handle() {
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
async fn ends_and_waits_say_how_long_they_took() {
    let took = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&took);
    let idempotency = Idempotency::builder(MemoryStore::new())
        .observer(move |event: &Event<'_>| {
            let took = event.took().unwrap();
            ear.lock().unwrap().push((event.kind(), took.as_secs()));
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
