//! Keys that stay taken until their lease ends, through a listener. `holds` and `failures` measure the same on paused time.

use std::time::{Duration, Instant};

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post as on_post;
use http::StatusCode;
use idempotence::http::Decision;

use support::http_client::{Orders, Service, idempotency, keyed, poll, scoped, within};

/// On a slow machine the shortest lease may end before the second request, and then there is a longer one.
const LEASES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(32),
];

/// Asserts that the key of the first request, which ends in this way, is taken until its lease ends.
async fn assert_held(first: fn() -> Response, send_first: impl AsyncFn(&Service)) {
    for lease in LEASES {
        let (service, orders) = service(first, lease).await;
        let claimed = Instant::now();
        send_first(&service).await;
        if is_held(&service, &orders, claimed, lease).await {
            return;
        }
    }
    panic!("each of {} leases ended too early", LEASES.len());
}

/// A service whose first request ends in this way.
async fn service(first: fn() -> Response, lease: Duration) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move {
        match placed.place() {
            1 => first(),
            order => format!("order {order}").into_response(),
        }
    };
    let layer = scoped(&idempotency()).lease(lease).build();
    let app = Router::new().route("/", on_post(place)).layer(layer);
    (Service::start(app).await, orders)
}

/// Whether the second request came before the end of the lease. It is refused, and after the lease the handler runs again.
async fn is_held(service: &Service, orders: &Orders, claimed: Instant, lease: Duration) -> bool {
    let refused = service.send(keyed("/", "a"), "").await;
    if orders.count() > 1 {
        assert!(claimed.elapsed() >= lease);
        return false;
    }
    assert_eq!(refused.refusal(), (409, "outcome_unknown".to_owned()));
    assert!(!refused.headers.contains_key("retry-after"));
    let is_free = |reply: &support::http_client::Reply| reply.status != StatusCode::CONFLICT;
    let reply = poll(service, || keyed("/", "a"), "", is_free).await;
    assert_eq!((reply.text(), reply.is_replay()), ("order 2", false));
    assert!(claimed.elapsed() >= lease);
    assert!(service.send(keyed("/", "a"), "").await.is_replay());
    assert_eq!(orders.count(), 2);
    true
}

#[tokio::test]
async fn a_held_key_is_taken_until_its_lease_ends() {
    let unsure = || {
        let mut response = StatusCode::GATEWAY_TIMEOUT.into_response();
        response.extensions_mut().insert(Decision::Hold);
        response
    };
    assert_held(unsure, async |service| {
        let held = service.send(keyed("/", "a"), "").await;
        assert_eq!(held.status, StatusCode::GATEWAY_TIMEOUT);
    })
    .await;
}

#[tokio::test]
async fn after_a_panic_the_key_is_taken_until_its_lease_ends() {
    let panics = || panic!("on purpose");
    assert_held(panics, async |service| {
        let request = keyed("/", "a").body(axum::body::Body::empty()).unwrap();
        let (response, _) = service.connect(request).await;
        // Without a layer that catches panics, the server closes the connection.
        assert!(within(response).await.is_err());
    })
    .await;
}
