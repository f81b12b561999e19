//! Operations of tokens, counters, sets and filters: each has one event, and none ends a call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotence::testkit::{Fault, FaultyStore};
use idempotent_runtime::{
    Error, Event, EventKind, FirstTime, Idempotency, MemoryStore, StoreErrorKind,
};

use crate::protocol::guarded::{millis, secs};
use support::log_capture::LogCapture;

/// The name of the endpoint, and of the counter, set and filter in its body.
const NAME: &str = "orders.submit";
const USER: u64 = 7;

/// The events that the observer of a handle receives, and how long each operation took.
#[derive(Clone, Default)]
struct Observed(Arc<Mutex<Vec<Ended>>>);

type Ended = (EventKind, Option<Duration>);

impl Observed {
    fn handle(&self, store: FaultyStore<MemoryStore>) -> Idempotency {
        let sink = self.clone();
        let observer = move |event: &Event<'_>| {
            assert_eq!(event.endpoint(), NAME);
            let event = (event.kind(), event.took());
            sink.0.lock().unwrap().push(event);
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
        let observed = self.take();
        observed.iter().map(|(kind, _)| kind.to_string()).collect()
    }
}

fn faulty() -> FaultyStore<MemoryStore> {
    FaultyStore::new(MemoryStore::new())
}

#[tokio::test(start_paused = true)]
async fn refused_operations_in_a_body_do_not_end_its_call() {
    let (observed, store) = (Observed::default(), faulty());
    let idempotency = observed.handle(store.clone());
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
    let observed = observed.take();
    let ends: Vec<_> = observed.iter().filter(|(kind, _)| kind.is_end()).collect();
    assert_eq!(ends, [observed.last().unwrap()]);
    assert_eq!(observed.last().unwrap().0, EventKind::Failed);
    let operations: Vec<_> = observed.iter().map(|(kind, _)| kind.to_string()).collect();
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
async fn a_call_with_a_refused_token_emits_one_end_and_the_redemption() {
    let (observed, store) = (Observed::default(), faulty());
    let idempotency = observed.handle(store);
    let tokens = idempotency.tokens();
    let token = tokens.issue(&USER, NAME, secs(60)).await.unwrap();
    tokens.redeem(token.as_str(), &USER, NAME).await.unwrap();
    observed.take();
    let call = idempotency.call(NAME).key(&USER).ttl(secs(60));
    let call = call.token(token.as_str(), &USER, NAME);
    let refused = call.run(async { Ok::<_, Error>(()) }).await.unwrap_err();
    assert_eq!(refused.code(), "token_used");
    assert_eq!(observed.kinds(), ["token_rejected", "token_refused"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_refused_token_logs_one_line() {
    let (observed, store) = (Observed::default(), faulty());
    let idempotency = observed.handle(store.clone());
    let unknown = "0".repeat(64);
    let submit = async |token: &str| {
        let call = idempotency.call(NAME).key(&USER).ttl(secs(60));
        let call = call.token(token, &USER, NAME);
        call.run(async { Ok::<_, Error>(()) }).await.unwrap_err()
    };
    for (token, code) in [(&*unknown, "token_unknown"), ("none", "token_malformed")] {
        let log = LogCapture::start();
        assert_eq!(submit(token).await.code(), code);
        let lines = [log.at("INFO"), log.at("WARN")].concat();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("token_refused"), "{lines:?}");
    }

    let log = LogCapture::start();
    idempotency
        .tokens()
        .redeem(&unknown, &USER, NAME)
        .await
        .unwrap_err();
    assert_eq!(log.at("INFO").len(), 1, "an operation outside of a call");
}

/// The event of an operation carries the time that the store took, whatever the outcome is.
#[tokio::test(start_paused = true)]
async fn an_operation_outside_a_call_emits_its_duration() {
    let (observed, store) = (Observed::default(), faulty());
    let idempotency = observed.handle(store.clone());
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
        panic!("the member is new");
    };
    let _ = seen.first_time(&USER).await.unwrap();
    assert!(added.take_back().await.unwrap());
    assert!(!added.take_back().await.unwrap());
    let _ = bloom.hint(&USER).await.unwrap();
    let _ = bloom.hint(&USER).await.unwrap();
    let (is_there, insert) = (async { Ok::<_, ()>(true) }, async { Ok(Some(())) });
    bloom.first_time(&USER, is_there, insert).await.unwrap();

    let events = observed.take();
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
async fn an_operation_without_an_answer_emits_one_event() {
    let (observed, store) = (Observed::default(), faulty());
    let idempotency = observed.handle(store.clone());
    let counter = idempotency.counter(NAME, 1, secs(60)).unwrap();
    store.always_all(Fault::Hang);
    let refused = counter.attempt(&USER).await.unwrap_err();
    assert!(refused.is_unavailable());
    let [(kind, took)] = observed.take()[..] else {
        panic!("one event");
    };
    assert_eq!(kind, EventKind::OperationFailed);
    assert!(took.is_some_and(|took| took > millis(500) && took <= secs(1)));
    assert!(counter.attempt(&USER).now_or_never().is_none());
    assert_eq!(observed.kinds(), ["operation_cancelled"]);
}
