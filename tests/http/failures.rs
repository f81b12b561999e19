//! Handlers and closures that panic, leases that are lost, and clients that hang up while a response is read.

use std::future::{Ready, pending, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::{StreamExt as _, stream};
use http::{Response, StatusCode};
use idempotence::http::{Decision, IdempotencyLayer, IdempotencyOutcome, LayerBuilder, Scope};
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{
    Idempotency, MemoryStore, OnLeaseLost, OnStoreError, Renew, Settle, StoreErrorKind,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::in_process::{Ends, Guarded};
use support::http_client::{Orders, Reply, idempotency, scoped};

const LEASE: Duration = Duration::from_secs(30);
/// The claim is stored for the lease and its grace of 3 s.
const EXPIRY: Duration = Duration::from_secs(33);
const MARGIN: Duration = Duration::from_millis(10);

fn placed(order: usize) -> Ready<Response<Body>> {
    ready(Response::new(Body::from(format!("order {order}"))))
}

/// Panics when it is called first.
fn panics_first() -> impl Fn() + Send + Sync + Clone + 'static {
    let calls = Orders::default();
    move || assert!(calls.place() > 1, "on purpose")
}

/// Asserts that the first request has the key until its claim expires, that other keys are free, and that one event was emitted.
async fn assert_panicked(guarded: &Guarded, began: Instant, ends: &Ends) {
    assert_eq!(ends.take(), ["panicked"]);
    guarded.assert_unknown("a").await;
    assert_eq!(ends.take(), ["taken"]);
    sleep_until(began + EXPIRY - MARGIN).await;
    guarded.assert_unknown("a").await;
    assert_eq!(guarded.send("b").await.text(), "order 2");
    sleep_until(began + EXPIRY + MARGIN).await;
    let again = guarded.send("a").await;
    assert_eq!((again.text(), again.is_replay()), ("order 3", false));
    assert!(guarded.send("a").await.is_replay());
    assert_eq!(guarded.runs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_handler_keeps_the_key_until_its_lease_ends() {
    let ends = Ends::default();
    let layer = scoped(&ends.on(MemoryStore::new())).route("orders");
    let guarded = Guarded::new(&layer.lease(LEASE).build(), |order| async move {
        assert!(order > 1, "on purpose");
        placed(order).await
    });
    let began = Instant::now();
    guarded.assert_panics("a", "").await;
    assert_panicked(&guarded, began, &ends).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_store_if_keeps_the_key_until_its_lease_ends() {
    let (ends, panic) = (Ends::default(), panics_first());
    let layer = scoped(&ends.on(MemoryStore::new())).store_if(move |_| {
        panic();
        true
    });
    let layer = layer.route("orders").lease(LEASE).build();
    let guarded = Guarded::new(&layer, placed);
    let began = Instant::now();
    guarded.assert_panics("a", "").await;
    assert_eq!(guarded.runs(), 1);
    assert_panicked(&guarded, began, &ends).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_scope_takes_no_key() {
    let panic = panics_first();
    let layer = IdempotencyLayer::builder(&idempotency()).scope_by(move |_| {
        panic();
        Some(7_u64)
    });
    let guarded = Guarded::new(&layer.route("orders").build(), placed);
    guarded.assert_panics("a", "").await;
    assert_eq!(guarded.runs(), 0);
    for is_replay in [false, true] {
        let reply = guarded.send("a").await;
        assert_eq!((reply.text(), reply.is_replay()), ("order 1", is_replay));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_on_reject_changes_no_key() {
    let panic = panics_first();
    let layer = scoped(&idempotency()).on_reject(move |_, response| {
        panic();
        response
    });
    let guarded = Guarded::new(&layer.route("orders").build(), placed);
    assert_eq!(guarded.send("a").await.text(), "order 1");
    guarded.assert_panics("a", "another payload").await;
    let replay = guarded.send("a").await;
    assert_eq!((replay.text(), replay.is_replay()), ("order 1", true));
    let refused = Reply::read(guarded.respond("a", "another payload").await).await;
    assert_eq!(refused.refusal(), (422, "payload_mismatch".to_owned()));
    assert_eq!(guarded.runs(), 1);
}

/// Counts its drops.
struct Dropped(Orders);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.place();
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_loses_its_lease_is_stopped_and_the_answer_is_500() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let (ends, stopped) = (Ends::default(), Orders::default());
    let layer = scoped(&ends.on(store.clone())).route("orders").lease(LEASE);
    let counted = stopped.clone();
    let guarded = Guarded::new(&layer.build(), move |order| {
        let dropped = Dropped(counted.clone());
        async move {
            if order == 1 {
                pending::<()>().await;
            }
            drop(dropped);
            placed(order).await
        }
    });
    let began = Instant::now();
    let response = guarded.respond("a", "").await;
    assert_eq!(stopped.count(), 1);
    assert!(began.elapsed() >= LEASE && began.elapsed() < EXPIRY);
    let outcome = response.extensions().get::<IdempotencyOutcome>();
    assert_eq!(outcome, Some(&IdempotencyOutcome::Refused));
    let lost = Reply::read(response).await;
    assert_eq!(lost.refusal(), (500, "lease_lost".to_owned()));
    assert_eq!(ends.take(), ["lease_lost"]);
    guarded.assert_taken("a").await;
    store.heal();
    sleep_until(began + EXPIRY + MARGIN).await;
    assert_eq!(guarded.send("a").await.text(), "order 2");
}

#[tokio::test(start_paused = true)]
async fn a_response_is_stored_whose_client_hangs_up_while_its_body_is_read() {
    let ends = Ends::default();
    let idempotency = ends.on(MemoryStore::new());
    let layer = scoped(&idempotency).route("orders").build();
    let guarded = Guarded::new(&layer, |_| async {
        let begin = stream::iter([Ok::<_, std::io::Error>(Bytes::from("order "))]);
        let rest = stream::once(async {
            sleep(Duration::from_secs(2)).await;
            Ok(Bytes::from("1"))
        });
        Response::new(Body::from_stream(begin.chain(rest)))
    });
    let began = Instant::now();
    let client = timeout(Duration::from_secs(1), guarded.send("a")).await;
    assert!(client.is_err(), "the response was read first");
    assert_eq!(guarded.runs(), 1);
    guarded.assert_taken("a").await;
    let drained = idempotency.drain(Duration::from_secs(10)).await;
    assert_eq!((drained, began.elapsed().as_secs()), (Ok(()), 2));
    let replay = guarded.send("a").await;
    assert_eq!((replay.status, replay.text()), (StatusCode::OK, "order 1"));
    assert!(replay.is_replay());
    assert_eq!(guarded.runs(), 1);
    assert_eq!(ends.take(), ["in_progress", "executed", "replayed"]);
}

#[tokio::test(start_paused = true)]
async fn an_outer_layer_sees_that_a_response_left_a_tombstone() {
    let layer = scoped(&idempotency()).route("orders").response_limit(0);
    let guarded = Guarded::new(&layer.build(), placed);
    for (outcome, status) in [
        (IdempotencyOutcome::Tombstone, StatusCode::OK),
        (IdempotencyOutcome::Refused, StatusCode::CONFLICT),
    ] {
        let response = guarded.respond("a", "").await;
        assert_eq!(response.status(), status);
        let seen = response.extensions().get::<IdempotencyOutcome>();
        assert_eq!(seen, Some(&outcome));
    }
    assert_eq!(guarded.runs(), 1);
}

/// A handler on a store that stops renewing after the first request has begun, and its answer to that request.
async fn without_renewals(
    options: impl FnOnce(LayerBuilder<Scope>) -> LayerBuilder<Scope>,
) -> (Guarded, Reply) {
    let store = FaultyStore::new(MemoryStore::new());
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let layer = IdempotencyLayer::builder(&Idempotency::new(store.clone())).global_scope();
    let layer = options(layer.route("orders").lease(LEASE)).build();
    let guarded = Guarded::new(&layer, |order| async move {
        sleep(EXPIRY).await;
        placed(order).await
    });
    let reply = guarded.send("a").await;
    store.heal();
    (guarded, reply)
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_continue_without_its_lease() {
    let (_, stopped) = without_renewals(|layer| layer).await;
    assert_eq!(stopped.refusal(), (500, "lease_lost".to_owned()));
    let (_, continued) = without_renewals(|layer| layer.on_lease_lost(OnLeaseLost::Continue)).await;
    assert_eq!(continued.text(), "order 1");
    let route = |layer: LayerBuilder<Scope>| {
        let layer = layer.on_store_error(OnStoreError::Run);
        layer.for_route("orders", |orders| orders.on_lease_lost(OnLeaseLost::Stop))
    };
    let (_, stopped) = without_renewals(route).await;
    assert_eq!(stopped.refusal(), (500, "lease_lost".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_as_long_as_the_layer_says() {
    for (renew, status) in [
        (Renew::Yes, 200),
        (Renew::No, 500),
        (Renew::Cap(LEASE), 500),
    ] {
        let layer = scoped(&idempotency())
            .route("orders")
            .lease(LEASE)
            .renew(renew);
        let guarded = Guarded::new(&layer.build(), |order| async move {
            sleep(3 * LEASE).await;
            placed(order).await
        });
        assert_eq!(guarded.send("a").await.status, status, "{renew:?}");
    }
}

/// Sends a request whose handler lasts for 2 s, on a store with these faults. Returns how it ended for an outer layer.
async fn outcome_of(
    response: fn() -> Response<Body>,
    faults: impl FnOnce(&FaultyStore<MemoryStore>),
) -> IdempotencyOutcome {
    let store = FaultyStore::new(MemoryStore::new());
    faults(&store);
    let idempotency = Idempotency::new(store.clone());
    let layer = scoped(&idempotency).route("orders").lease(LEASE);
    let guarded = Guarded::new(&layer.build(), move |_| async move {
        sleep(Duration::from_secs(2)).await;
        response()
    });
    let response = guarded.respond("a", "").await;
    *response.extensions().get().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_outer_layer_sees_that_the_end_of_a_request_is_not_confirmed() {
    let stored: fn() -> Response<Body> = || Response::new(Body::from("placed"));
    let released: fn() -> Response<Body> = || {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    };
    for (response, op, done) in [
        (stored, Op::Replace, IdempotencyOutcome::Stored),
        (released, Op::Remove, IdempotencyOutcome::Released),
    ] {
        assert_eq!(outcome_of(response, |_| {}).await, done);
        let once = Fault::Fail(StoreErrorKind::NotApplied);
        for fault in [once, Fault::LoseReply] {
            let outcome = outcome_of(response, |store| store.next(op, fault)).await;
            assert_eq!(outcome, done, "{fault:?}");
        }
        for fault in [once, Fault::Hang] {
            let outcome = outcome_of(response, |store| store.always(op, fault)).await;
            assert_eq!(outcome, IdempotencyOutcome::Unconfirmed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_may_be_sent_before_the_store_has_it() {
    let store = FaultyStore::new(MemoryStore::new());
    let idempotency = Idempotency::new(store.clone());
    let layer = scoped(&idempotency)
        .route("orders")
        .settle(Settle::Background);
    let guarded = Guarded::new(&layer.build(), placed);
    let delay = Duration::from_millis(200);
    store.next(Op::Replace, Fault::Delay(delay));
    let began = Instant::now();
    let first = guarded.respond("a", "").await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    let outcome = first.extensions().get();
    assert_eq!(outcome, Some(&IdempotencyOutcome::Unconfirmed));
    // An equal request of the process waits.
    assert!(guarded.send("a").await.is_replay());
    assert_eq!((began.elapsed(), guarded.runs()), (delay, 1));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_the_store_has_no_room_for_is_unavailable_to_repetitions() {
    let store = FaultyStore::new(MemoryStore::new());
    let idempotency = Idempotency::new(store.clone());
    let layer = scoped(&idempotency).route("orders").lease(LEASE);
    let guarded = Guarded::new(&layer.build(), placed);
    store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    let first = guarded.respond("a", "").await;
    let outcome = first.extensions().get();
    assert_eq!(outcome, Some(&IdempotencyOutcome::Unconfirmed));
    idempotency.drain(LEASE).await.unwrap();
    let repeated = guarded.send("a").await;
    assert_eq!(repeated.refusal(), (409, "result_unavailable".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_outer_layer_sees_that_another_request_has_the_key_at_the_end() {
    for (status, is_hold, expected) in [
        // The other request may fail, so the response is sent again.
        (200, false, IdempotencyOutcome::Unconfirmed),
        (500, false, IdempotencyOutcome::Unrecorded),
        (200, true, IdempotencyOutcome::Unrecorded),
    ] {
        let store = MemoryStore::new();
        let [first, second] = [0, 1].map(|_| {
            let layer = scoped(&Idempotency::new(store.clone())).route("orders");
            let layer = layer.lease(LEASE).renew(Renew::No);
            let layer = layer.on_lease_lost(OnLeaseLost::Continue).build();
            Guarded::new(&layer, move |_| async move {
                sleep(2 * LEASE).await;
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                if is_hold {
                    response.extensions_mut().insert(Decision::Hold);
                }
                response
            })
        });
        let later = async {
            sleep(EXPIRY + MARGIN).await;
            second.respond("a", "").await
        };
        let (response, _) = tokio::join!(first.respond("a", ""), later);
        let outcome = response.extensions().get();
        assert_eq!(outcome, Some(&expected), "{status}");
        assert_eq!((first.runs(), second.runs()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_is_stored_after_its_lease_if_no_other_request_has_the_key() {
    let layer = scoped(&idempotency()).route("orders").lease(LEASE);
    let layer = layer.renew(Renew::No).on_lease_lost(OnLeaseLost::Continue);
    let guarded = Guarded::new(&layer.build(), |order| async move {
        sleep(2 * LEASE).await;
        placed(order).await
    });
    let response = guarded.respond("a", "").await;
    let outcome = response.extensions().get();
    assert_eq!(outcome, Some(&IdempotencyOutcome::Stored));
    assert!(guarded.send("a").await.is_replay());
}
