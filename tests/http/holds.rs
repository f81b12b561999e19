//! `Decision::Hold`: the key stays taken until the lease of its last claim or renewal ends.

use std::future::pending;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse as _;
use http::{Response, StatusCode};
use idempotence::http::{Decision, HasScope, IdempotencyOutcome, LayerBuilder};
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{
    DuplicateState, Error, Idempotency, MemoryStore, OnStoreError, Renew, StoreErrorKind,
};
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::in_process::{Ends, Guarded};
use support::http_client::{Reply, idempotency, scoped};

/// A running request renews its lease after 10 s and after 20 s.
const LEASE: Duration = secs(30);
/// The claim is stored for the lease and its grace of 3 s.
const EXPIRY: Duration = secs(33);
const MARGIN: Duration = Duration::from_millis(10);

const UNAVAILABLE: Fault = Fault::Fail(StoreErrorKind::NotApplied);

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn layer(idempotency: &Idempotency) -> LayerBuilder<impl HasScope + use<>> {
    scoped(idempotency).route("orders").lease(LEASE)
}

/// The response of a handler that cannot know whether its work is done.
fn unsure() -> Response<Body> {
    let mut response = Response::new(Body::from("the bank did not answer"));
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response.extensions_mut().insert(Decision::Hold);
    response
}

/// A handler that lasts this long, and then holds its key.
fn holding(layer: LayerBuilder<impl HasScope>, lasts: Duration) -> Guarded {
    Guarded::new(&layer.build(), move |_| async move {
        sleep(lasts).await;
        unsure()
    })
}

async fn hold(guarded: &Guarded) {
    let held = guarded.send("a").await;
    assert_eq!(held.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(held.text(), "the bank did not answer");
    assert_eq!(guarded.runs(), 1);
}

/// Asserts that the key is held until this instant, and not longer.
async fn assert_held_until(guarded: &Guarded, end: Instant) {
    guarded.assert_unknown("a").await;
    sleep_until(end - MARGIN).await;
    guarded.assert_unknown("a").await;
    assert_free_after(guarded, end).await;
}

async fn assert_free_after(guarded: &Guarded, end: Instant) {
    sleep_until(end + MARGIN).await;
    let again = guarded.send("a").await;
    assert_eq!(again.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(guarded.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_held_key_refuses_requests_until_its_lease_ends_and_not_longer() {
    for (lasts, last_renewal) in [(0, 0), (9, 0), (15, 10), (25, 20)] {
        let began = Instant::now();
        let guarded = holding(layer(&idempotency()), secs(lasts));
        hold(&guarded).await;
        assert_held_until(&guarded, began + secs(last_renewal) + EXPIRY).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_sends_only_its_mark_and_drain_waits_for_it() {
    for (lasts, renewals) in [(0, 0), (9, 0), (25, 2)] {
        let store = CountingStore::new(MemoryStore::new());
        let idempotency = Idempotency::new(store.clone());
        let guarded = holding(layer(&idempotency), secs(lasts));
        hold(&guarded).await;
        let drained = idempotency.drain(Duration::from_millis(1)).await;
        assert_eq!(drained, Ok(()));
        let sent = store.counts();
        assert_eq!((sent.claim, sent.replace), (1, renewals + 1));
        assert_eq!(sent.total(), 1 + renewals + 1);
        sleep(secs(600)).await;
        assert_eq!(store.counts(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_one_event_of_its_call() {
    for lasts in [0, 25] {
        let ends = Ends::default();
        let guarded = holding(layer(&ends.on(MemoryStore::new())), secs(lasts));
        hold(&guarded).await;
        sleep(secs(600)).await;
        assert_eq!(ends.take(), ["failed"]);
    }
}

/// A handler that holds its key after 2 s, and the same handler on the same handle or on another handle.
fn pair(wait: Duration, is_elsewhere: bool) -> [Guarded; 2] {
    let store = MemoryStore::new();
    let first = Idempotency::new(store.clone());
    let second = if is_elsewhere {
        Idempotency::new(store)
    } else {
        first.clone()
    };
    [first, second].map(|idempotency| holding(layer(&idempotency).wait(wait), secs(2)))
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_is_refused_when_the_key_is_held() {
    for is_elsewhere in [false, true] {
        let [first, second] = pair(secs(60), is_elsewhere);
        let waiting = async {
            while first.runs() == 0 {
                yield_now().await;
            }
            let began = Instant::now();
            second.assert_unknown("a").await;
            // The first handler lasts 2 s. A waiting request asks the store at least twice in a second.
            let expected = secs(2)..=secs(3);
            assert!(expected.contains(&began.elapsed()), "{:?}", began.elapsed());
        };
        tokio::join!(hold(&first), waiting);
        assert_eq!(second.runs(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_client_has_hung_up_holds_its_key() {
    for (lasts, last_renewal) in [(9, 0), (25, 20)] {
        let ends = Ends::default();
        let idempotency = ends.on(MemoryStore::new());
        let guarded = holding(layer(&idempotency), secs(lasts));
        let began = Instant::now();
        let dropped = timeout(secs(1), guarded.send("a")).await;
        assert!(dropped.is_err(), "the handler ended first");
        let drained = idempotency.drain(secs(60)).await;
        assert_eq!(drained, Ok(()));
        assert!(began.elapsed() >= secs(lasts));
        assert_eq!(ends.take(), ["failed"]);
        assert_held_until(&guarded, began + secs(last_renewal) + EXPIRY).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_does_not_wait_for_a_store_that_fails_or_hangs() {
    for fault in [UNAVAILABLE, Fault::Hang] {
        let faulty = FaultyStore::new(MemoryStore::new());
        let store = CountingStore::new(faulty.clone());
        let idempotency = Idempotency::new(store.clone());
        let outage = faulty.clone();
        let guarded = Guarded::new(&layer(&idempotency).build(), move |_| {
            let outage = outage.clone();
            async move {
                // After the first renewal.
                sleep(secs(15)).await;
                outage.always_all(fault);
                // During the second renewal, which fails.
                sleep(secs(5) + MARGIN).await;
                unsure()
            }
        });
        let began = Instant::now();
        hold(&guarded).await;
        assert!(began.elapsed() <= secs(20) + 2 * MARGIN);
        // The mark is sent once, for at most the deadline.
        guarded.assert_unknown("a").await;
        let drained = idempotency.drain(secs(1) + MARGIN).await;
        assert_eq!(drained, Ok(()));
        let sent = store.counts();
        assert!(sent.replace >= 3, "no renewal failed");
        sleep(secs(5)).await;
        faulty.heal();
        assert_eq!(store.counts(), sent);
        // Without its mark the request looks as if it was running.
        let end = began + secs(10) + EXPIRY;
        guarded.assert_taken("a").await;
        sleep_until(end - MARGIN).await;
        guarded.assert_taken("a").await;
        assert_free_after(&guarded, end).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_in_flight_at_a_hold_is_the_last_one() {
    let faulty = FaultyStore::new(MemoryStore::new());
    let store = CountingStore::new(faulty.clone());
    let delay = secs(1);
    faulty.next(Op::Replace, Fault::Delay(delay));
    // The first renewal is sent after 10 s.
    let guarded = holding(layer(&Idempotency::new(store.clone())), secs(10) + MARGIN);
    let began = Instant::now();
    hold(&guarded).await;
    assert_eq!(faulty.remaining_faults(), 0, "no renewal was sent");
    sleep(secs(5)).await;
    // The renewal and the mark.
    assert_eq!(store.counts().replace, 2);
    guarded.assert_unknown("a").await;
    let latest = began + secs(10) + delay + EXPIRY;
    sleep_until(latest + MARGIN).await;
    assert_eq!(store.counts().replace, 2);
    guarded.send("a").await;
    assert_eq!(guarded.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hold_without_a_claim_leaves_what_is_stored() {
    for (fault, is_stored) in [(Fault::LoseReply, true), (UNAVAILABLE, false)] {
        let store = FaultyStore::new(MemoryStore::new());
        store.always(Op::Claim, fault);
        let ends = Ends::default();
        let idempotency = ends.on(store.clone());
        let unguarded = layer(&idempotency).on_store_error(OnStoreError::Run);
        let guarded = holding(unguarded, secs(0));
        hold(&guarded).await;
        store.heal();
        assert_eq!(idempotency.drain(secs(60)).await, Ok(()));
        assert_eq!(ends.take(), ["failed"]);
        if is_stored {
            guarded.assert_taken("a").await;
            sleep(EXPIRY + MARGIN).await;
        }
        guarded.send("a").await;
        assert_eq!(guarded.runs(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_key_says_that_its_outcome_is_not_known() {
    for is_elsewhere in [false, true] {
        let [first, second] = pair(Duration::ZERO, is_elsewhere);
        hold(&first).await;
        // The mark is sent in the background.
        sleep(MARGIN).await;
        let refused = second.send("a").await;
        assert_eq!(refused.refusal(), (409, "outcome_unknown".to_owned()));
        let problem = refused.problem();
        assert_eq!(
            problem["title"],
            "The outcome of an equal request is not known"
        );
        assert_eq!(
            (&problem["retryable"], &problem["client_action"]),
            (&json!(false), &json!("refresh"))
        );
        assert!(!refused.headers.contains_key("retry-after"));
        let response = second.respond("a", "another payload").await;
        let other = Reply::read(response).await;
        assert_eq!(other.refusal(), (422, "payload_mismatch".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_that_the_outcome_of_a_held_key_is_not_known() {
    let idempotency = idempotency();
    let guarded = holding(layer(&idempotency), secs(15));
    let began = Instant::now();
    hold(&guarded).await;
    sleep(MARGIN).await;
    let parts = ("header", "authorization", ["alice".as_bytes()], "a");
    let held = idempotency.peek("orders", &parts).await.unwrap().unwrap();
    assert_eq!(held.state(), DuplicateState::Unknown);
    // The key was renewed after 10 s.
    let free = Instant::now() + held.remaining().unwrap();
    assert!(free.duration_since(began) <= secs(10) + EXPIRY + MARGIN);
    assert!(idempotency.forget(&held).await.unwrap());
    hold(&Guarded::new(&layer(&idempotency).build(), |_| async {
        unsure()
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_of_a_guarded_call_in_the_handler_holds_the_key() {
    for stores_all in [false, true] {
        let layer = layer(&idempotency()).store_if(move |_| stores_all);
        let inner = idempotency();
        let guarded = Guarded::new(&layer.build(), move |_| {
            let call = inner.call("ship").key(&()).ttl(secs(3600));
            let call = call.lease(secs(1)).renew(Renew::No);
            async move {
                let stopped: Result<(), Error> = call.run(pending()).await;
                let response = stopped.unwrap_err().into_response();
                response.map(Body::new)
            }
        });
        let began = Instant::now();
        let stopped = guarded.send("a").await;
        assert_eq!(stopped.refusal(), (500, "lease_lost".to_owned()));
        guarded.assert_unknown("a").await;
        sleep_until(began + EXPIRY + MARGIN).await;
        guarded.send("a").await;
        assert_eq!(guarded.runs(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_past_its_lease_holds_nothing() {
    let lease = Duration::from_millis(200);
    let layer = layer(&idempotency()).lease(lease).renew(Renew::No);
    let guarded = Guarded::new(&layer.build(), move |_| async move {
        std::thread::sleep(lease + 10 * MARGIN);
        unsure()
    });
    let response = guarded.respond("a", "").await;
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    let outcome = response.extensions().get();
    assert_eq!(outcome, Some(&IdempotencyOutcome::Unrecorded));
}
