//! The Agentic Commerce Protocol.

use idempotence::http::Profile;
use serde_json::json;

use super::{Shop, keyed, refusal};
use support::http_client::post;

async fn shop() -> Shop {
    Shop::start(Profile::Acp).await
}

fn order(key: &str) -> http::request::Builder {
    keyed("/orders", key)
}

#[tokio::test]
async fn a_post_without_a_key_is_400_idempotency_key_required() {
    let shop = shop().await;
    let refused = shop.send(post("/orders"), "{}").await;
    let body = json!({"type": "invalid_request", "code": "idempotency_key_required"});
    assert_eq!(refusal(&refused), (400, body));
    assert!(!refused.headers.contains_key("idempotency-key"));
    let put = shop.send(post("/orders").method("PUT"), "{}").await;
    assert_eq!((put.status.as_u16(), shop.orders.count()), (200, 1));
}

#[tokio::test]
async fn every_response_to_a_post_repeats_its_key() {
    let shop = shop().await;
    let first = shop.send(order("a b"), "1").await;
    let replay = shop.send(order("a b"), "1").await;
    let conflict = shop.send(order("a b"), "2").await;
    let malformed = shop.send(order(&"k".repeat(256)), "1").await;
    let failed = shop.send(order("c").header("x-status", "500"), "1").await;
    let keys = [&first, &replay, &conflict, &malformed, &failed];
    let keys = keys.map(|reply| reply.headers["idempotency-key"].to_str().unwrap());
    assert_eq!(keys, ["a b", "a b", "a b", &"k".repeat(256), "c"]);
    assert!(!first.headers.contains_key("idempotent-replayed"));
    assert_eq!(replay.headers["idempotent-replayed"], "true");
    assert_eq!(malformed.status, 400);
}

#[tokio::test]
async fn a_key_with_another_body_is_422_idempotency_conflict() {
    let shop = shop().await;
    shop.send(order("a"), r#"{"id":1}"#).await;
    let refused = shop.send(order("a"), r#"{"id":2}"#).await;
    let body = json!({"type": "invalid_request", "code": "idempotency_conflict"});
    assert_eq!(refusal(&refused), (422, body));
    assert!(!refused.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn a_key_of_a_running_request_is_409_idempotency_in_flight() {
    let shop = shop().await;
    let running = shop.begin(order("a"), "1").await;
    let refused = shop.send(order("a"), "1").await;
    let body = json!({"type": "invalid_request", "code": "idempotency_in_flight"});
    assert_eq!(refusal(&refused), (409, body));
    let wait: u64 = refused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(wait > 0);
    assert_eq!(shop.end(running).await.status, 200);
}

#[tokio::test]
async fn bodies_are_compared_as_json() {
    let shop = shop().await;
    for (at, (first, second, is_equal)) in [
        (r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#, true),
        (r#"{"a":1.0}"#, r#"{"a":1}"#, true),
        (r#"{"a":null}"#, "{}", false),
        (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("json {at}");
        shop.send(order(&key), first).await;
        let second_reply = shop.send(order(&key), second).await;
        let status = if is_equal { 200 } else { 422 };
        assert_eq!(second_reply.status, status, "{first} {second}");
    }
    assert_eq!(shop.orders.count(), 4);
}

#[tokio::test]
async fn a_failure_of_the_server_is_never_stored_and_other_answers_are() {
    let shop = shop().await;
    let stored = [200, 201, 400, 401, 402, 404, 409, 422, 429];
    let released = [500, 501, 502, 503, 504];
    for status in stored.into_iter().chain(released) {
        let is_stored = stored.contains(&status);
        shop.assert_repeated(order(&status.to_string()), status, is_stored)
            .await;
    }
}

#[tokio::test]
async fn a_key_belongs_to_one_path() {
    let shop = shop().await;
    for path in ["/orders", "/orders/1", "/orders/2"] {
        for _ in 0..2 {
            assert_eq!(shop.send(keyed(path, "a"), "{}").await.status, 200);
        }
    }
    assert_eq!(shop.orders.count(), 3);
}

#[tokio::test]
async fn a_store_that_is_unavailable_is_service_unavailable() {
    let shop = Shop::without_store(Profile::Acp).await;
    let refused = shop.send(order("a"), "{}").await;
    let body = json!({"type": "service_unavailable", "code": "store_unavailable"});
    assert_eq!(refusal(&refused), (503, body));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(refused.headers["idempotency-key"], "a");
}

#[tokio::test]
async fn an_error_that_the_protocol_does_not_name_keeps_the_code_of_this_crate() {
    let shop = shop().await;
    shop.send(order("a").header("x-hold", "yes"), "{}").await;
    let refused = shop.send(order("a"), "{}").await;
    let body = json!({"type": "invalid_request", "code": "outcome_unknown"});
    assert_eq!(refusal(&refused), (409, body));
}
