//! Keys that stay taken until their lease ends, through a listener. `holds` and `failures` measure the same on paused time.

use std::time::{Duration, Instant};

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post as on_post;
use http::StatusCode;
use idempotence::http::Decision;

use support::http_client::{Orders, Service, idempotency, keyed, poll, scoped, within};

const LEASE: Duration = Duration::from_millis(500);

/// A service whose first request ends in this way.
async fn service(first: fn() -> Response) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move {
        match placed.place() {
            1 => first(),
            order => format!("order {order}").into_response(),
        }
    };
    let layer = scoped(&idempotency()).lease(LEASE).build();
    let app = Router::new().route("/", on_post(place)).layer(layer);
    (Service::start(app).await, orders)
}

/// Asserts that the key is taken until its lease ends. The handler then runs again.
async fn assert_held(service: &Service, orders: &Orders, claimed: Instant) {
    let refused = service.send(keyed("/", "a"), "").await;
    assert_eq!(refused.refusal(), (409, "outcome_unknown".to_owned()));
    assert!(!refused.headers.contains_key("retry-after"));
    assert_eq!(orders.count(), 1);
    let is_free = |reply: &support::http_client::Reply| reply.status != StatusCode::CONFLICT;
    let reply = poll(service, || keyed("/", "a"), "", is_free).await;
    assert_eq!((reply.text(), reply.is_replay()), ("order 2", false));
    assert!(claimed.elapsed() >= LEASE);
    assert!(service.send(keyed("/", "a"), "").await.is_replay());
    assert_eq!(orders.count(), 2);
}

#[tokio::test]
async fn a_held_key_is_taken_until_its_lease_ends() {
    let (service, orders) = service(|| {
        let mut response = StatusCode::GATEWAY_TIMEOUT.into_response();
        response.extensions_mut().insert(Decision::Hold);
        response
    })
    .await;
    let claimed = Instant::now();
    let held = service.send(keyed("/", "a"), "").await;
    assert_eq!(held.status, StatusCode::GATEWAY_TIMEOUT);
    assert_held(&service, &orders, claimed).await;
}

#[tokio::test]
async fn after_a_panic_the_key_is_taken_until_its_lease_ends() {
    let (service, orders) = service(|| panic!("on purpose")).await;
    let claimed = Instant::now();
    let request = keyed("/", "a").body(axum::body::Body::empty()).unwrap();
    let (response, _) = service.connect(request).await;
    // Without a layer that catches panics, the server closes the connection.
    assert!(within(response).await.is_err());
    assert_held(&service, &orders, claimed).await;
}
