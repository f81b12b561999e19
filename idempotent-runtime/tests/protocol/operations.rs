//! Operations of tokens, counters, sets and filters: each has one event, and none ends a call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotent_runtime::testkit::{Fault, FaultyStore};
use idempotent_runtime::{
    Error, Event, EventKind, FirstTime, Idempotency, MemoryStore, StoreErrorKind,
};

use crate::guarded::{millis, secs};

/// The name of the endpoint, and of everything that is used in its body.
const NAME: &str = "orders.submit";
const USER: u64 = 7;

/// The events that the observer of a handle receives, and how long each operation took.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Ended>>>);

type Ended = (EventKind, Option<Duration>);

impl Told {
    fn handle(&self, store: FaultyStore<MemoryStore>) -> Idempotency {
        let told = self.clone();
        let observer = move |event: &Event<'_>| {
            assert_eq!(event.endpoint(), NAME);
            let event = (event.kind(), event.took());
            told.0.lock().unwrap().push(event);
        };
        Idempotency::builder(store)
            .observer(observer)
            .build()
            .unwrap()
    }

    fn take(&self) -> Vec<Ended> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn kinds(&self) -> Vec<String> {
        let told = self.take();
        told.iter().map(|(kind, _)| kind.to_string()).collect()
    }
}

fn faulty() -> FaultyStore<MemoryStore> {
    FaultyStore::new(MemoryStore::new())
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_in_the_body_of_a_call_of_the_same_name_does_not_end_it() {
    let (told, store) = (Told::default(), faulty());
    let idempotency = told.handle(store.clone());
    let counter = idempotency.counter(NAME, 1, secs(60)).unwrap();
    let seen = idempotency.seen_set(NAME, secs(60)).unwrap();
    let bloom = idempotency.bloom(NAME, 100, 0.01, secs(60)).unwrap();
    let body = async {
        counter.attempt(&USER).await?;
        let refused = counter.attempt(&USER).await.unwrap_err();
        let tokens = idempotency.tokens();
        tokens.redeem("none", &USER, NAME).await.unwrap_err();
        let unknown = "0".repeat(64);
        tokens.redeem(&unknown, &USER, NAME).await.unwrap_err();
        store.always_all(Fault::Fail(StoreErrorKind::Misconfigured));
        seen.first_time(&USER).await.unwrap_err();
        bloom.hint(&USER).await.unwrap_err();
        store.heal();
        Err::<(), Error>(refused)
    };
    let call = idempotency.call(NAME).key(&USER).ttl(secs(60));
    let refused = call.run(body).await.unwrap_err();
    assert_eq!(refused.code(), "limit_reached");
    let told = told.take();
    let ends: Vec<_> = told.iter().filter(|(kind, _)| kind.is_end()).collect();
    assert_eq!(ends, [told.last().unwrap()]);
    assert_eq!(told.last().unwrap().0, EventKind::Failed);
    let operations: Vec<_> = told.iter().map(|(kind, _)| kind.to_string()).collect();
    let expected = [
        "counted",
        "limit_reached",
        "token_rejected",
        "token_rejected",
        "operation_failed",
        "operation_failed",
        "failed",
    ];
    assert_eq!(operations, expected);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_token_is_refused_ends_once_beside_the_redemption() {
    let (told, store) = (Told::default(), faulty());
    let idempotency = told.handle(store);
    let tokens = idempotency.tokens();
    let token = tokens.issue(&USER, NAME, secs(60)).await.unwrap();
    tokens.redeem(token.as_str(), &USER, NAME).await.unwrap();
    told.take();
    let call = idempotency.call(NAME).key(&USER).ttl(secs(60));
    let call = call.token(token.as_str(), &USER, NAME);
    let refused = call.run(async { Ok::<_, Error>(()) }).await.unwrap_err();
    assert_eq!(refused.code(), "token_used");
    assert_eq!(told.kinds(), ["token_rejected", "token_refused"]);
}

/// The event of an operation carries the time that the store took, whatever the outcome is.
#[tokio::test(start_paused = true)]
async fn an_operation_alone_is_no_call_and_has_a_duration() {
    let (told, store) = (Told::default(), faulty());
    let idempotency = told.handle(store.clone());
    let (tokens, seen) = (
        idempotency.tokens(),
        idempotency.seen_set(NAME, secs(60)).unwrap(),
    );
    let counter = idempotency.counter(NAME, 1, secs(60)).unwrap();
    let bloom = idempotency.bloom(NAME, 100, 0.01, secs(60)).unwrap();
    store.always_all(Fault::Delay(millis(5)));

    let token = tokens.issue(&USER, NAME, secs(60)).await.unwrap();
    let redeemed = tokens.redeem(token.as_str(), &USER, NAME).await.unwrap();
    let again = tokens.redeem(token.as_str(), &USER, NAME).await;
    again.unwrap_err();
    assert!(redeemed.give_back().await.unwrap());
    counter.attempt(&USER).await.unwrap();
    counter.attempt(&USER).await.unwrap_err();
    let FirstTime::Yes(added) = seen.first_time(&USER).await.unwrap() else {
        panic!("it was seen");
    };
    let _ = seen.first_time(&USER).await.unwrap();
    assert!(added.take_back().await.unwrap());
    assert!(!added.take_back().await.unwrap());
    let _ = bloom.hint(&USER).await.unwrap();
    let _ = bloom.hint(&USER).await.unwrap();
    let (is_there, insert) = (async { Ok::<_, ()>(true) }, async { Ok(Some(())) });
    bloom.first_time(&USER, is_there, insert).await.unwrap();

    let events = told.take();
    for (kind, took) in &events {
        assert!(kind.is_operation() && !kind.is_end(), "{kind}");
        assert_eq!(*took, Some(millis(5)), "{kind}");
    }
    let kinds: Vec<_> = events.iter().map(|(kind, _)| kind.to_string()).collect();
    let expected = [
        "token_issued",
        "token_redeemed",
        "token_rejected",
        "token_given_back",
        "counted",
        "limit_reached",
        "first_seen",
        "seen_before",
        "taken_back",
        "not_there",
        "first_seen",
        "perhaps_seen",
        "seen_before",
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_the_store_does_not_answer_has_one_event_too() {
    let (told, store) = (Told::default(), faulty());
    let idempotency = told.handle(store.clone());
    let counter = idempotency.counter(NAME, 1, secs(60)).unwrap();
    store.always_all(Fault::Hang);
    let refused = counter.attempt(&USER).await.unwrap_err();
    assert!(refused.is_unavailable());
    let [(kind, took)] = told.take()[..] else {
        panic!("one event");
    };
    assert_eq!(kind, EventKind::OperationFailed);
    assert!(took.is_some_and(|took| took > millis(500) && took <= secs(1)));
    assert!(counter.attempt(&USER).now_or_never().is_none());
    assert_eq!(told.kinds(), ["operation_cancelled"]);
}
