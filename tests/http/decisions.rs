//! Which responses are stored.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post as on_post;
use axum::{Extension, Json, Router};
use http::{HeaderMap, StatusCode};
use idempotence::http::{Decision, IdempotencyLayer, IdempotencyOutcome};
use idempotent_runtime::{Error, Event, Idempotency, MemoryStore};

use support::http_client::{Orders, Service, idempotency, keyed, layer, scoped};

/// Answers with the status and the decision that the request names.
async fn answer(State(orders): State<Orders>, headers: HeaderMap) -> Response {
    let order = orders.place();
    let status = headers["x-status"].to_str().unwrap().parse().unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    let mut response = (status, order.to_string()).into_response();
    let decision = match headers.get("x-decision").map(|name| name.to_str().unwrap()) {
        Some("store") => Decision::Store,
        Some("release") => Decision::Release,
        Some("hold") => Decision::Hold,
        _ => return response,
    };
    response.extensions_mut().insert(decision);
    response
}

async fn service(layer: IdempotencyLayer) -> (Service, Orders) {
    let orders = Orders::default();
    let app = Router::new().route("/", on_post(answer)).layer(layer);
    let app = app.with_state(orders.clone());
    (Service::start(app).await, orders)
}

fn with_status(key: &str, status: u16) -> http::request::Builder {
    keyed("/", key).header("x-status", status)
}

#[tokio::test]
async fn final_answers_are_stored_and_other_answers_free_the_key() {
    let (service, orders) = service(layer()).await;
    let stored = [200, 201, 202, 204, 301, 303, 307, 402, 404, 409, 410];
    let released = [400, 401, 403, 405, 415, 422, 425, 429, 500, 502, 503];
    for status in stored.into_iter().chain(released) {
        let before = orders.count();
        let key = status.to_string();
        for is_second in [false, true] {
            let reply = service.send(with_status(&key, status), "").await;
            assert_eq!(reply.status, status);
            let is_replay = is_second && stored.contains(&status);
            assert_eq!(reply.is_replay(), is_replay, "{status}");
        }
        let runs = if stored.contains(&status) { 1 } else { 2 };
        assert_eq!(orders.count() - before, runs, "{status}");
    }
}

#[tokio::test]
async fn a_timeout_inside_of_the_layer_holds_the_key() {
    let never = || scoped(&idempotency()).store_if(|_| false).build();
    for (layer, status) in [
        (layer(), 408),
        (layer(), 504),
        (never(), 408),
        (never(), 504),
    ] {
        let (service, orders) = service(layer).await;
        let stopped = service.send(with_status("a", status), "").await;
        assert_eq!(stopped.status, status);
        let retry = service.send(with_status("a", status), "").await;
        assert_eq!(retry.refusal(), (409, "outcome_unknown".to_owned()));
        assert_eq!(orders.count(), 1);
    }
}

#[tokio::test]
async fn a_failure_then_a_success_is_stored_once() {
    let (service, orders) = service(layer()).await;
    for (status, is_replay) in [(500, false), (201, false), (200, true)] {
        let reply = service.send(with_status("a", status), "").await;
        assert_eq!(reply.is_replay(), is_replay);
    }
    assert_eq!(orders.count(), 2);
}

#[tokio::test]
async fn the_program_may_choose_what_is_stored() {
    let layer = scoped(&idempotency()).store_if(|head| head.status == StatusCode::BAD_GATEWAY);
    let (service, orders) = service(layer.build()).await;
    for (status, runs) in [(502, 1), (200, 3)] {
        let key = status.to_string();
        for _ in 0..2 {
            service.send(with_status(&key, status), "").await;
        }
        assert_eq!(orders.count(), runs, "{status}");
    }
}

#[tokio::test]
async fn a_handler_may_store_any_response_or_free_the_key() {
    let (service, orders) = service(layer()).await;
    for (status, decision, runs) in [(500, "store", 1), (200, "release", 3)] {
        for _ in 0..2 {
            let request = with_status(decision, status).header("x-decision", decision);
            let reply = service.send(request, "").await;
            assert_eq!(reply.status, status);
        }
        assert_eq!(orders.count(), runs, "{decision}");
    }
}

#[tokio::test]
async fn a_rejected_extractor_frees_the_key() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move |Json(order): Json<u64>| async move { format!("{} {order}", placed.place()) };
    let app = Router::new().route("/", on_post(place)).layer(layer());
    let service = Service::start(app).await;
    let json = || keyed("/", "a").header("content-type", "application/json");
    let rejected = service.send(json(), "none").await;
    assert_eq!(rejected.status, StatusCode::BAD_REQUEST);
    assert_eq!(service.send(json(), "7").await.text(), "1 7");
    assert!(service.send(json(), "7").await.is_replay());
}

#[tokio::test]
async fn a_refusal_of_a_guarded_function_in_the_handler_frees_the_key() {
    let idempotency = idempotency();
    let (orders, handle) = (Orders::default(), idempotency.clone());
    let placed = orders.clone();
    let place = move || async move {
        let call = handle.call("ship").key(&()).ttl(Duration::from_hours(1));
        let shipped: Result<usize, Error> = call.run(async { Ok(placed.place()) }).await;
        shipped.map(|order| order.to_string())
    };
    let app = Router::new().route("/", on_post(place));
    let service = Service::start(app.layer(scoped(&idempotency).build())).await;
    assert_eq!(service.send(keyed("/", "a"), "").await.text(), "1");
    for _ in 0..2 {
        let refused = service.send(keyed("/", "b"), "").await;
        assert_eq!(refused.refusal(), (409, "already_done".to_owned()));
        assert!(!refused.is_replay());
    }
}

#[tokio::test]
async fn an_outer_layer_sees_how_a_request_was_answered() {
    async fn report(request: Request, next: Next) -> Response {
        let mut response = next.run(request).await;
        let outcome = response.extensions().get::<IdempotencyOutcome>();
        let outcome = outcome.map_or("none", |outcome| outcome.as_str());
        let has_error = response.extensions().get::<Arc<Error>>().is_some();
        let outcome = format!("{outcome} {has_error}").parse().unwrap();
        response.headers_mut().insert("x-outcome", outcome);
        response
    }
    let orders = Orders::default();
    let app = Router::new().route("/", on_post(answer)).with_state(orders);
    let app = app.layer(layer()).layer(from_fn(report));
    let service = Service::start(app.layer(Extension(()))).await;
    for (key, status, decision, outcome) in [
        ("a", 500, "", "released false"),
        ("a", 200, "", "stored false"),
        ("a", 200, "", "replayed false"),
        ("b", 504, "hold", "held false"),
        ("b", 504, "hold", "refused true"),
        ("\"", 200, "", "refused false"),
    ] {
        let request = with_status(key, status).header("x-decision", decision);
        let reply = service.send(request, "").await;
        assert_eq!(reply.headers["x-outcome"], outcome);
    }
    let request = support::http_client::post("/").header("x-status", 200);
    let reply = service.send(request, "").await;
    assert_eq!(reply.headers["x-outcome"], "none false");
    assert!(Idempotency::current().is_none(), "no handle is installed");
}

/// A service whose events are recorded, with this limit of responses.
async fn recorded(response_limit: usize) -> (Service, Arc<Mutex<Vec<&'static str>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&seen);
    let builder = Idempotency::builder(MemoryStore::new()).observer(move |event: &Event<'_>| {
        events.lock().unwrap().push(event.kind().as_str());
    });
    let layer = scoped(&builder.build().unwrap()).response_limit(response_limit);
    (service(layer.build()).await.0, seen)
}

#[tokio::test]
async fn every_end_of_a_request_is_an_event_of_its_call() {
    let (service, seen) = recorded(100).await;
    for (key, status, decision, body, kind) in [
        ("a", 500, "", "", "failed"),
        ("a", 200, "", "", "executed"),
        ("a", 200, "", "", "replayed"),
        ("a", 200, "", "other", "mismatch"),
        ("b", 504, "hold", "", "failed"),
        ("b", 504, "hold", "", "taken"),
    ] {
        let request = with_status(key, status).header("x-decision", decision);
        service.send(request, body).await;
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [kind]);
    }
}

#[tokio::test]
async fn a_stream_that_the_program_chose_is_no_alarm() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&seen);
    let builder = Idempotency::builder(MemoryStore::new()).observer(move |event: &Event<'_>| {
        events.lock().unwrap().push(event.kind().as_str());
    });
    let layer = scoped(&builder.build().unwrap()).stream();
    let (service, _) = service(layer.build()).await;
    for kinds in [&["executed"][..], &["result_unavailable"]] {
        service.send(with_status("a", 200), "").await;
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), kinds);
    }
}

#[tokio::test]
async fn a_tombstone_is_an_event_of_its_call() {
    let (service, seen) = recorded(0).await;
    for kinds in [&["executed", "not_kept"][..], &["result_unavailable"]] {
        service.send(with_status("a", 200), "").await;
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), kinds);
    }
}
