//! The answers to requests whose handler does not run.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::post as on_post;
use futures_util::stream;
use idempotence::http::{IdempotencyLayer, IdempotencyOutcome};
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{Idempotency, MemoryStore, OnStoreError, StoreErrorKind};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use support::http_client::{
    Orders, Reply, Service, idempotency, keyed, layer, post, scoped, within,
};

async fn shop(layer: IdempotencyLayer) -> (Service, Orders) {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { placed.place().to_string() };
    let app = Router::new().route("/", on_post(place)).layer(layer);
    (Service::start(app).await, orders)
}

#[tokio::test]
async fn a_refusal_is_a_problem_that_says_what_to_do() {
    let layer = scoped(&idempotency())
        .require_key()
        .docs_url("https://shop.example/docs/retries")
        .build();
    let (service, _) = shop(layer).await;
    let refused = service.send(post("/"), "").await;
    let link = "<https://shop.example/docs/retries>; rel=\"describedby\"";
    assert_eq!(refused.headers["link"], link);
    assert_eq!(refused.headers["content-language"], "en");
    let problem = refused.problem();
    assert_eq!(problem["status"], 400);
    assert_eq!(problem["retryable"], false);
    assert_eq!(problem["client_action"], "fix");
    assert_eq!(problem["type"], "urn:idempotence:idempotency_key_missing");
}

#[tokio::test]
async fn a_refusal_is_in_the_language_of_the_request() {
    let (service, _) = shop(scoped(&idempotency()).build()).await;
    service.send(keyed("/", "a"), "1").await;
    let chinese = keyed("/", "a").header("accept-language", "zh-CN, en;q=0.5");
    let refused = service.send(chinese, "2").await;
    assert_eq!(refused.headers["content-language"], "zh-Hans");
    let problem = refused.problem();
    assert_eq!(problem["title"], "该幂等键已用于另一个请求");
    assert_eq!(problem["detail"], "内容与首次提交的不一致，请重新发起");
    let english = service.send(keyed("/", "a"), "2").await;
    assert_eq!(
        english.problem()["title"],
        "The key belongs to another request"
    );
}

#[tokio::test]
async fn the_program_may_replace_the_body_of_a_refusal() {
    let layer = scoped(&idempotency()).on_reject(|rejection, response| {
        let body = json!({
            "error": rejection.code(),
            "status": rejection.status().as_u16(),
            "known": rejection.error().is_some(),
        });
        response.map(|_| body.to_string().into())
    });
    let (service, _) = shop(layer.build()).await;
    service.send(keyed("/", "a"), "1").await;
    let refused = service.send(keyed("/", "a"), "2").await;
    assert_eq!(refused.status, 422);
    let expected = json!({"error": "payload_mismatch", "status": 422, "known": true});
    assert_eq!(refused.problem(), expected);
}

fn broken_store() -> FaultyStore<MemoryStore> {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    store
}

fn on(store: FaultyStore<MemoryStore>) -> Idempotency {
    let builder = Idempotency::builder(store);
    builder
        .deadline(Duration::from_millis(200))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_request_is_refused_while_the_store_is_unavailable() {
    let (service, orders) = shop(scoped(&on(broken_store())).build()).await;
    let refused = service.send(keyed("/", "a"), "").await;
    assert_eq!(refused.refusal(), (503, "store_unavailable".to_owned()));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(refused.problem()["retryable"], true);
    assert_eq!(orders.count(), 0);
    let unguarded = service.send(post("/"), "").await;
    assert_eq!(unguarded.text(), "1");
}

#[tokio::test]
async fn a_request_may_run_while_the_store_is_unavailable() {
    let layer = scoped(&on(broken_store())).on_store_error(OnStoreError::Run);
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { placed.place().to_string() };
    let app = Router::new()
        .route("/", on_post(place))
        .layer(layer.build());
    let app = app.layer(map_response(async |response: Response| {
        let outcome = response.extensions().get::<IdempotencyOutcome>();
        assert_eq!(outcome, Some(&IdempotencyOutcome::Unguarded));
        response
    }));
    let service = Service::start(app).await;
    for order in 1..=2 {
        let reply = service.send(keyed("/", "a"), "").await;
        assert_eq!(
            (reply.text(), reply.is_replay()),
            (&*order.to_string(), false)
        );
    }
    assert_eq!(orders.count(), 2);
}

#[tokio::test]
async fn a_replay_needs_no_more_than_the_answer_to_its_claim() {
    let store = FaultyStore::new(MemoryStore::new());
    let (service, orders) = shop(scoped(&on(store.clone())).build()).await;
    service.send(keyed("/", "a"), "").await;
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    assert!(service.send(keyed("/", "a"), "").await.is_replay());
    assert_eq!(orders.count(), 1);
}

#[tokio::test]
async fn a_request_that_did_not_arrive_as_a_whole_may_be_sent_again() {
    let orders = Orders::default();
    let placed = orders.clone();
    let place = move || async move { placed.place().to_string() };
    let layer = scoped(&idempotency()).build();
    let app = Router::new().route("/", on_post(place)).layer(layer);
    let send = async |body: Body| {
        let request = keyed("/", "a").body(body).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        Reply::read(response).await
    };
    let chunks = [
        Ok(Bytes::from("1")),
        Err(std::io::Error::other("the client is gone")),
    ];
    let refused = send(Body::from_stream(stream::iter(chunks))).await;
    assert_eq!(refused.refusal(), (400, "request_unreadable".to_owned()));
    let problem = refused.problem();
    assert_eq!(
        (&problem["retryable"], &problem["client_action"]),
        (&json!(true), &json!("wait"))
    );
    assert_eq!(problem["retry_after_ms"], 1000);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(orders.count(), 0);
    assert_eq!(send(Body::from("1")).await.text(), "1");
}

#[tokio::test]
async fn a_request_with_malformed_chunks_is_not_worth_another_try() {
    let (service, orders) = shop(layer()).await;
    let mut connection = TcpStream::connect(service.address).await.unwrap();
    let head =
        "POST / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ada\r\nidempotency-key: a\r\n";
    let chunks = "transfer-encoding: chunked\r\n\r\n1\r\n1\r\nno length\r\n";
    let request = [head, chunks].concat();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    within(connection.read_to_string(&mut reply)).await.unwrap();
    let (head, problem) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    assert!(!head.contains("retry-after"), "{head}");
    let problem: Value = serde_json::from_str(problem).unwrap();
    assert_eq!(
        (
            &problem["code"],
            &problem["retryable"],
            &problem["client_action"]
        ),
        (&json!("request_unreadable"), &json!(false), &json!("fix"))
    );
    assert_eq!(orders.count(), 0);
    assert_eq!(service.send(keyed("/", "a"), "1").await.status, 200);
}
