//! What a repeated request gets.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::middleware::map_response;
use axum::response::{AppendHeaders, IntoResponse as _, Response};
use axum::routing::post as on_post;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use idempotence::http::{IdempotencyLayer, IdempotencyOutcome, Payload};
use tokio::sync::Barrier;

use support::http_client::{
    MAX_WAIT, Orders, Reply, Service, idempotency, keyed, layer, post, scoped,
};

/// Headers that a response has for its first client, connection or moment only.
const NEVER_REPLAYED: [&str; 28] = [
    "set-cookie",
    "www-authenticate",
    "retry-after",
    "te",
    "upgrade",
    "proxy-connection",
    "proxy-authentication-info",
    "access-control-expose-headers",
    "ratelimit",
    "ratelimit-policy",
    "authentication-info",
    "age",
    "server",
    "alt-svc",
    "keep-alive",
    "proxy-authenticate",
    "access-control-allow-origin",
    "ratelimit-remaining",
    "x-ratelimit-limit",
    "server-timing",
    "traceparent",
    "tracestate",
    "x-request-id",
    // Of Stripe and Anthropic, Azure, AWS, PayPal, Checkout.com.
    "request-id",
    "x-ms-request-id",
    "x-amzn-requestid",
    "paypal-debug-id",
    "cko-request-id",
];

/// Headers that describe the result.
const REPLAYED: [&str; 9] = [
    "location",
    "content-location",
    "etag",
    "last-modified",
    "link",
    "content-language",
    "vary",
    "cache-control",
    "x-order",
];

async fn shop(layer: IdempotencyLayer) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move {
        let order = placed.place();
        let headers = AppendHeaders([
            ("link", "</a>; rel=\"first\"".to_owned()),
            ("x-order", order.to_string()),
            ("link", "</b>; rel=\"last\"".to_owned()),
            ("location", format!("/orders/{order}")),
        ]);
        (StatusCode::CREATED, headers, format!("order {order}"))
    };
    let app = Router::new().route("/orders", on_post(place)).layer(layer);
    (Service::start(app).await, orders)
}

/// The lines of a response that its replay must have, too.
fn comparable(reply: &Reply) -> Vec<(String, String)> {
    let mut lines = reply.lines();
    lines.retain(|(name, _)| name != "date" && name != "idempotency-replayed");
    lines
}

#[tokio::test]
async fn a_replay_equals_the_first_response_but_for_its_marker() {
    let (service, orders) = shop(layer()).await;
    let first = service.send(keyed("/orders", "a"), "{}").await;
    let second = service.send(keyed("/orders", "a"), "{}").await;
    assert_eq!(orders.count(), 1);
    assert_eq!(first.status, StatusCode::CREATED);
    assert_eq!(first.text(), "order 1");
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    assert_eq!(comparable(&second), comparable(&first));
    let links = second.headers.get_all("link").iter();
    assert_eq!(
        links.collect::<Vec<_>>(),
        ["</a>; rel=\"first\"", "</b>; rel=\"last\""]
    );
    assert!(!first.is_replay());
    assert_eq!(second.headers["idempotency-replayed"], "true");
}

#[tokio::test]
async fn another_key_is_another_request() {
    let (service, orders) = shop(layer()).await;
    for key in ["a", "b", "\"c\""] {
        let reply = service.send(keyed("/orders", key), "{}").await;
        assert!(!reply.is_replay());
    }
    assert!(service.send(keyed("/orders", "c"), "{}").await.is_replay());
    assert_eq!(orders.count(), 3);
}

#[tokio::test]
async fn the_marker_may_have_another_name() {
    let marker = HeaderName::from_static("idempotent-replayed");
    let (service, _) = shop(scoped(&idempotency()).replay_header(marker).build()).await;
    service.send(keyed("/orders", "a"), "").await;
    let replay = service.send(keyed("/orders", "a"), "").await;
    assert_eq!(replay.headers["idempotent-replayed"], "true");
    assert!(!replay.is_replay());
}

/// Answers with all headers of both lists.
async fn with_every_header() -> axum::response::Response {
    let mut response = "ok".into_response();
    for name in NEVER_REPLAYED.into_iter().chain(REPLAYED) {
        let value = HeaderValue::from_static("x");
        response.headers_mut().append(name, value);
    }
    let headers = response.headers_mut();
    headers.append("connection", HeaderValue::from_static("x-hop"));
    headers.append("x-hop", HeaderValue::from_static("x"));
    let date = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT");
    headers.append("date", date);
    response
}

#[tokio::test]
async fn headers_of_a_client_a_connection_or_a_moment_are_never_replayed() {
    let app = Router::new().route("/", on_post(with_every_header));
    let service = Service::start(app.layer(layer())).await;
    let first = service.send(keyed("/", "a"), "").await;
    let replay = service.send(keyed("/", "a"), "").await;
    assert!(replay.is_replay());
    for name in NEVER_REPLAYED {
        assert!(first.headers.contains_key(name), "{name}");
        assert!(!replay.headers.contains_key(name), "{name}");
    }
    for name in REPLAYED {
        assert_eq!(replay.headers[name], "x", "{name}");
    }
    assert!(!replay.headers.contains_key("x-hop"));
    assert_eq!(first.headers["date"], "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_ne!(replay.headers["date"], first.headers["date"]);
}

#[tokio::test]
async fn a_list_of_headers_limits_what_is_replayed() {
    let kept = [header::LOCATION, header::SET_COOKIE];
    let layer = scoped(&idempotency()).keep_headers(kept).build();
    let app = Router::new().route("/", on_post(with_every_header));
    let service = Service::start(app.layer(layer)).await;
    service.send(keyed("/", "a"), "").await;
    let replay = service.send(keyed("/", "a"), "").await;
    assert_eq!(replay.headers["location"], "x");
    for name in ["etag", "x-order", "set-cookie"] {
        assert!(!replay.headers.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn trailers_are_replayed() {
    let with_trailers = || async {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("42"));
        trailers.insert("set-cookie", HeaderValue::from_static("a"));
        let frames = [
            Ok::<_, std::io::Error>(Frame::data(Bytes::from("pa"))),
            Ok(Frame::data(Bytes::from("id"))),
            Ok(Frame::trailers(trailers)),
        ];
        let body = Body::new(StreamBody::new(futures_util::stream::iter(frames)));
        ([("trailer", "x-sum")], body)
    };
    let app = Router::new().route("/", on_post(with_trailers));
    let service = Service::start(app.layer(layer())).await;
    let request = || keyed("/", "a").header("te", "trailers");
    for is_replay in [false, true] {
        let reply = service.send(request(), "").await;
        assert_eq!((reply.text(), reply.is_replay()), ("paid", is_replay));
        let trailers = reply.trailers.expect("trailers");
        assert_eq!(trailers["x-sum"], "42");
        assert_eq!(trailers.len(), 1);
    }
}

#[tokio::test]
async fn an_outer_layer_learns_when_the_first_response_was_made() {
    async fn show(response: Response) -> Response {
        let mut response = response;
        if let Some(IdempotencyOutcome::Replayed { first, .. }) = response.extensions().get() {
            let first = first.duration_since(UNIX_EPOCH).unwrap().as_millis();
            let first = HeaderValue::from(u64::try_from(first).unwrap());
            response.headers_mut().insert("x-first", first);
        }
        response
    }
    let now = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_millis()).unwrap()
    };
    let app = Router::new().route("/", on_post(async || "paid"));
    let app = app.layer(layer()).layer(map_response(show));
    let service = Service::start(app).await;
    let before = now();
    let first = service.send(keyed("/", "a"), "").await;
    let made = before..=now();
    assert!(!first.headers.contains_key("x-first"));
    for _ in 0..2 {
        // From now on the time of a replay differs from the time of the first response.
        while made.contains(&now()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let replay = service.send(keyed("/", "a"), "").await;
        let first: u64 = replay.headers["x-first"].to_str().unwrap().parse().unwrap();
        assert!(made.contains(&first), "{first} {made:?}");
    }
}

#[tokio::test]
async fn a_stored_response_expires_after_its_ttl() {
    let ttl = Duration::from_millis(200);
    let (service, orders) = shop(scoped(&idempotency()).ttl(ttl).build()).await;
    service.send(keyed("/orders", "a"), "").await;
    let request = || keyed("/orders", "a");
    support::http_client::poll(&service, request, "", |reply| !reply.is_replay()).await;
    assert_eq!(orders.count(), 2);
}

#[tokio::test]
async fn a_payload_may_be_compared_as_json() {
    let (service, orders) = shop(scoped(&idempotency()).payload(Payload::json()).build()).await;
    let json = || keyed("/orders", "a").header("content-type", "application/json");
    service.send(json(), r#"{"cents": 5, "to": 7}"#).await;
    let replay = service.send(json(), r#"{"to":7.0,"cents":5}"#).await;
    assert!(replay.is_replay());
    let null = service
        .send(json(), r#"{"to":7,"cents":5,"note":null}"#)
        .await;
    assert_eq!(null.refusal(), (422, "payload_mismatch".to_owned()));
    assert_eq!(orders.count(), 1);
}

const CLIENTS: usize = 100;

/// Sends equal requests at once.
async fn storm(service: Service) -> Vec<Reply> {
    let (service, barrier) = (Arc::new(service), Arc::new(Barrier::new(CLIENTS)));
    let clients = (0..CLIENTS).map(|_| {
        let (service, barrier) = (Arc::clone(&service), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            service.send(keyed("/orders", "a"), "{}").await
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut replies = Vec::new();
    for client in clients {
        replies.push(client.await.unwrap());
    }
    replies
}

#[tokio::test]
async fn concurrent_equal_requests_run_the_handler_once() {
    let wait = MAX_WAIT;
    let (service, orders) = shop(scoped(&idempotency()).wait(wait).build()).await;
    let replies = storm(service).await;
    assert!(replies.iter().all(|reply| reply.text() == "order 1"));
    let replays = replies.iter().filter(|reply| reply.is_replay()).count();
    assert_eq!((orders.count(), replays), (1, CLIENTS - 1));
}

#[tokio::test]
async fn without_a_guard_concurrent_equal_requests_run_the_handler_each_time() {
    let unguarded = scoped(&idempotency()).methods([]).build();
    let (service, orders) = shop(unguarded).await;
    let replies = storm(service).await;
    let orders_of_replies: HashSet<_> = replies.iter().map(Reply::text).collect();
    assert_eq!(
        (orders.count(), orders_of_replies.len()),
        (CLIENTS, CLIENTS)
    );
}

#[tokio::test]
async fn a_request_without_a_key_runs_each_time() {
    let (service, orders) = shop(layer()).await;
    for order in 1..=3 {
        let reply = service.send(post("/orders"), "{}").await;
        assert_eq!(reply.text(), format!("order {order}"));
    }
    assert_eq!(orders.count(), 3);
}
