//! Calls of the builder that are not guarded because `when` is false.

use std::sync::{Arc, Mutex};

use idempotence::testkit::CountingStore;
use idempotent_runtime::{
    Error, Event, EventKind, GuardedCall, Idempotency, MemoryStore, OnCancel, Release,
};
use serde::{Serialize, Serializer};
use tokio::time::timeout;

use crate::protocol::guarded::{forever, millis, secs};

/// A handle on a counting store, and its events. Checks that every end has a duration.
fn observed_handle() -> (
    CountingStore<MemoryStore>,
    Idempotency,
    Arc<Mutex<Vec<String>>>,
) {
    let store = CountingStore::new(MemoryStore::new());
    let events = Arc::<Mutex<Vec<String>>>::default();
    let sink = Arc::clone(&events);
    let handle = Idempotency::builder(store.clone()).observer(move |event: &Event<'_>| {
        let timed = event.kind().is_end() && event.kind() != EventKind::Invalid;
        assert!(!timed || event.took().is_some(), "{event}");
        sink.lock().unwrap().push(event.kind().to_string());
    });
    (store, handle.build().unwrap(), events)
}

fn pay(idempotency: &Idempotency, id: Option<u64>) -> GuardedCall {
    let call = idempotency.call("orders.pay").key(&id);
    call.when(id.is_some()).ttl(secs(60))
}

#[tokio::test(start_paused = true)]
async fn equal_calls_that_are_not_guarded_all_run_and_send_nothing() {
    let (store, idempotency, events) = observed_handle();
    for paid in 1..=3 {
        let call = pay(&idempotency, None).replay();
        let outcome = call.run(async { Ok::<_, Error>(paid) }).await;
        assert_eq!(outcome.unwrap(), paid);
    }
    assert_eq!(store.counts().total(), 0);
    assert_eq!(*events.lock().unwrap(), ["bypassed"; 3]);

    // The negative control: with a key the calls are equal and one runs.
    for _ in 1..=3 {
        let call = pay(&idempotency, Some(1)).replay();
        let outcome = call.run(async { Ok::<_, Error>(store.counts().total()) });
        assert_eq!(outcome.await.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bypassed_call_does_not_serialize_its_result() {
    struct Unwritable;

    impl Serialize for Unwritable {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("on purpose"))
        }
    }

    impl<'de> serde::Deserialize<'de> for Unwritable {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Self)
        }
    }

    let (_, idempotency, events) = observed_handle();
    let call = pay(&idempotency, None).replay();
    let outcome = call.run(async { Ok::<_, Error>(Unwritable) }).await;
    assert!(outcome.is_ok());
    assert_eq!(*events.lock().unwrap(), ["bypassed"]);
}

#[tokio::test(start_paused = true)]
async fn when_false_skips_all_checks_of_the_key_in_any_order_of_options() {
    struct Unwritable;

    impl Serialize for Unwritable {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("on purpose"))
        }
    }

    let (store, idempotency, events) = observed_handle();
    let call = || idempotency.call("orders.pay");
    let body = || async { Ok::<_, Error>(1) };
    for call in [
        call().key(&Unwritable).when(false),
        call().when(false).key(&Unwritable),
        call().when(false).key(&1).payload(&Unwritable),
        call().when(false).key(&1),
        // Only a guarded call checks the policy.
        call()
            .when(false)
            .key(&1)
            .release(Release::Always)
            .lease(secs(5)),
    ] {
        let call = call.ttl_from_settings();
        assert_eq!(call.run(body()).await.unwrap(), 1);
    }
    assert_eq!(store.counts().total(), 0);
    assert_eq!(events.lock().unwrap().drain(..).as_slice(), ["bypassed"; 5]);

    for call in [
        call().key(&Unwritable).when(true),
        call().when(true).key(&Unwritable),
        call().when(false).when(true).key(&Unwritable),
        call().key(&Unwritable),
    ] {
        let refused = call.ttl(secs(60)).run(body()).await.unwrap_err();
        assert_eq!(refused.code(), "invalid_key");
    }
    assert_eq!(events.lock().unwrap().drain(..).as_slice(), ["invalid"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_runs_emits_no_event() {
    let (_, idempotency, events) = observed_handle();
    drop(idempotency.call("orders.pay").when(true));
    drop(
        idempotency
            .call("orders.pay")
            .token("none", &1, "orders.pay"),
    );
    assert!(events.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn when_cannot_be_combined_with_a_token() {
    let (store, idempotency, events) = observed_handle();
    let good = idempotency.tokens();
    let good = good.issue(&1, "orders.pay", secs(60)).await.unwrap();
    let sent = store.counts().total();
    events.lock().unwrap().clear();
    for guarded in [true, false] {
        for token in [&*good.to_string(), ""] {
            let call = idempotency.call("orders.pay").when(guarded).ttl(secs(60));
            let call = call.token(token, &1, "orders.pay");
            let refused = call.run(async { Ok::<_, Error>(()) }).await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), "invalid_policy", "{refused}");
            assert!(refused.to_string().contains("`when`"), "{refused}");
        }
    }
    assert_eq!(store.counts().total(), sent);
    assert_eq!(*events.lock().unwrap(), ["invalid"; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_bypassed_call_ends_as_cancelled_and_sends_nothing() {
    for on_cancel in [OnCancel::Keep, OnCancel::Release] {
        let (store, idempotency, events) = observed_handle();
        let call = pay(&idempotency, None).on_cancel(on_cancel);
        let call = call.error(|_| ()).run(forever());
        assert!(timeout(millis(10), call).await.is_err());
        assert_eq!(idempotency.drain(secs(1)).await, Ok(()));
        assert_eq!(store.counts().total(), 0);
        assert_eq!(*events.lock().unwrap(), ["cancelled"]);
    }
}

#[tokio::test(start_paused = true)]
async fn run_to_end_finishes_a_bypassed_body_after_a_drop() {
    let (store, idempotency, events) = observed_handle();
    let done = Arc::new(tokio::sync::Notify::new());
    let notify = Arc::clone(&done);
    let body = async move {
        tokio::time::sleep(secs(5)).await;
        notify.notify_one();
        Ok::<_, Error>(())
    };
    let call = pay(&idempotency, None).run_to_end(body);
    assert!(timeout(secs(1), call).await.is_err());
    done.notified().await;
    assert_eq!(idempotency.drain(secs(1)).await, Ok(()));
    assert_eq!(store.counts().total(), 0);
    assert_eq!(*events.lock().unwrap(), ["bypassed"]);
}
