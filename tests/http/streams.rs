//! Responses that are not stored as a whole.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::post as on_post;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::header::ETAG;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use idempotence::http::{IdempotencyLayer, RouteOptions};
use idempotent_runtime::{Idempotency, MemoryStore};
use tokio::sync::Semaphore;

use crate::in_process::Guarded;
use support::http_client::{Orders, Reply, Service, idempotency, keyed, layer, scoped, within};

const LOCATION: (&str, &str) = ("location", "/orders/1");

/// A service whose response has this type and this body.
async fn service(
    layer: IdempotencyLayer,
    content_type: &'static str,
    body: fn() -> Body,
) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move {
        placed.place();
        let headers = [("content-type", content_type), LOCATION];
        (StatusCode::CREATED, headers, body())
    };
    let app = Router::new().route("/", on_post(place)).layer(layer);
    (Service::start(app).await, orders)
}

/// Asserts that the first client gets this body, and the second client where the result is.
async fn assert_tombstone(service: &Service, orders: &Orders, length: usize) {
    let first = service.send(keyed("/", "a"), "").await;
    assert_eq!(
        (first.status, first.body.len()),
        (StatusCode::CREATED, length)
    );
    for _ in 0..2 {
        let refused = service.send(keyed("/", "a"), "").await;
        assert_eq!(refused.refusal(), (409, "result_unavailable".to_owned()));
        assert_eq!(refused.headers["location"], "/orders/1");
        assert!(!refused.is_replay());
    }
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_list_of_headers_also_filters_the_location_of_a_tombstone() {
    for (kept, has_location) in [(ETAG, false), (http::header::LOCATION, true)] {
        let layer = scoped(&idempotency()).stream().keep_headers([kept]);
        let (service, _) = service(layer.build(), "text/csv", || chunks(3)).await;
        service.send(keyed("/", "a"), "").await;
        let refused = service.send(keyed("/", "a"), "").await;
        assert_eq!(refused.refusal(), (409, "result_unavailable".to_owned()));
        assert_eq!(refused.headers.contains_key("location"), has_location);
    }
}

fn chunks(count: usize) -> Body {
    let chunks = (0..count).map(|_| Ok::<_, std::io::Error>(Bytes::from("0123456789")));
    Body::from_stream(stream::iter(chunks))
}

#[tokio::test]
async fn events_pass_and_leave_a_tombstone() {
    let (service, orders) =
        service(layer(), "text/event-stream; charset=utf-8", || chunks(2)).await;
    assert_tombstone(&service, &orders, 20).await;
}

#[tokio::test]
async fn responses_of_a_stream_route_pass_and_leave_a_tombstone() {
    let layer = scoped(&idempotency()).for_route("/", RouteOptions::stream);
    let (service, orders) = service(layer.build(), "text/plain", || chunks(2)).await;
    assert_tombstone(&service, &orders, 20).await;
}

#[tokio::test]
async fn a_response_of_unknown_length_is_stored_up_to_the_limit() {
    let limited = || scoped(&idempotency()).response_limit(20).build();
    let (small, _) = service(limited(), "text/plain", || chunks(2)).await;
    let first = small.send(keyed("/", "a"), "").await;
    let replay = small.send(keyed("/", "a"), "").await;
    assert!(replay.is_replay());
    assert_eq!((first.text().len(), replay.body), (20, first.body));
    let (large, orders) = service(limited(), "text/plain", || chunks(3)).await;
    assert_tombstone(&large, &orders, 30).await;
}

#[tokio::test]
async fn a_response_of_known_length_is_stored_up_to_the_limit() {
    let limited = |limit| scoped(&idempotency()).response_limit(limit).build();
    let (small, _) = service(limited(10), "text/plain", || "0123456789".into()).await;
    small.send(keyed("/", "a"), "").await;
    assert!(small.send(keyed("/", "a"), "").await.is_replay());
    let (large, orders) = service(limited(9), "text/plain", || "0123456789".into()).await;
    assert_tombstone(&large, &orders, 10).await;
}

#[tokio::test]
async fn a_response_above_the_limit_of_the_handle_leaves_a_tombstone() {
    let builder = Idempotency::builder(MemoryStore::new());
    let handle = builder.largest_result(100).build().unwrap();
    let layer = scoped(&handle).build();
    let body = || "x".repeat(101).into();
    let (service, orders) = service(layer, "text/plain", body).await;
    assert_tombstone(&service, &orders, 101).await;
}

#[tokio::test]
async fn the_limits_of_a_response_do_not_count_its_headers() {
    let builder = Idempotency::builder(MemoryStore::new());
    let handle = builder.largest_result(100).build().unwrap();
    let layer = || scoped(&handle).response_limit(100).build();
    let (small, _) = service(layer(), "text/plain", || "x".repeat(100).into()).await;
    let (largest, _) = service(support::http_client::layer(), "text/plain", || {
        vec![b'x'; 1024 * 1024].into()
    })
    .await;
    for service in [small, largest] {
        let first = service.send(keyed("/", "a"), "").await;
        let replay = service.send(keyed("/", "a"), "").await;
        assert!(replay.is_replay());
        assert_eq!((replay.status, replay.body), (first.status, first.body));
    }
}

#[tokio::test]
async fn a_response_with_more_than_64_kib_of_headers_leaves_a_tombstone() {
    for (kib, is_replay) in [(63, true), (65, false)] {
        let layer = scoped(&idempotency()).route("orders").build();
        let guarded = Guarded::new(&layer, move |_| async move {
            let mut response = Response::new(Body::from("placed"));
            for line in 0..kib {
                // With its name and lengths a line has 1 KiB.
                let value = HeaderValue::try_from("x".repeat(1024 - 14)).unwrap();
                let name = HeaderName::try_from(format!("x-line{line:02}")).unwrap();
                response.headers_mut().insert(name, value);
            }
            response
        });
        guarded.send("a").await;
        assert_eq!(guarded.send("a").await.is_replay(), is_replay, "{kib}");
        assert_eq!(guarded.runs(), 1);
    }
}

#[tokio::test]
async fn the_default_limit_of_a_response_is_about_one_mebibyte() {
    let (small, _) = service(layer(), "text/plain", || vec![b'x'; 1024 * 1000].into()).await;
    small.send(keyed("/", "a"), "").await;
    let replay = small.send(keyed("/", "a"), "").await;
    assert_eq!((replay.is_replay(), replay.body.len()), (true, 1024 * 1000));
    let (large, orders) =
        service(layer(), "text/plain", || vec![b'x'; 1024 * 1024 + 1].into()).await;
    assert_tombstone(&large, &orders, 1024 * 1024 + 1).await;
}

#[tokio::test]
async fn a_tombstone_is_stored_before_the_first_byte_leaves() {
    let gate = Arc::new(Semaphore::new(0));
    let (orders, opened) = (Orders::default(), Arc::clone(&gate));
    let placed = orders.clone();
    let place = move || async move {
        placed.place();
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from("first"))]);
        let last = stream::once(async move {
            opened.acquire().await.unwrap().forget();
            Ok(Bytes::from(" last"))
        });
        let headers = [("content-type", "text/event-stream"), LOCATION];
        (headers, Body::from_stream(first.chain(last)))
    };
    let app = Router::new().route("/", on_post(place)).layer(layer());
    let service = Service::start(app).await;
    let request = keyed("/", "a").body(Body::empty()).unwrap();
    let (mut response, _) = service.begin(request).await;
    let first = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "first");
    let refused = within(service.send(keyed("/", "a"), "")).await;
    assert_eq!(refused.refusal(), (409, "result_unavailable".to_owned()));
    gate.add_permits(1);
    assert_eq!(Reply::read(response).await.text(), " last");
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_response_that_breaks_off_leaves_a_tombstone() {
    let broken = || {
        let chunks = [
            Ok(Bytes::from("begun")),
            Err(std::io::Error::other("the disk is gone")),
        ];
        Body::from_stream(stream::iter(chunks))
    };
    let (service, orders) = service(layer(), "text/plain", broken).await;
    let request = keyed("/", "a").body(Body::empty()).unwrap();
    // The client gets a part of the response, or nothing.
    let (response, _) = service.connect(request).await;
    if let Ok(response) = within(response).await {
        assert!(response.into_body().collect().await.is_err());
    }
    let refused = service.send(keyed("/", "a"), "").await;
    assert_eq!(refused.refusal(), (409, "result_unavailable".to_owned()));
    assert_eq!(orders.count(), 1);
}
