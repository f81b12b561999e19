//! Stripe, API version 1.

use idempotent_runtime::http::Profile;
use serde_json::json;

use super::{Shop, keyed, refusal};
use support::http_client::post;

async fn shop() -> Shop {
    Shop::start(Profile::Stripe).await
}

fn order(key: &str) -> http::request::Builder {
    keyed("/orders", key)
}

#[tokio::test]
async fn a_replay_has_the_header_of_stripe() {
    let shop = shop().await;
    let first = shop.send(order("a"), "{}").await;
    let replay = shop.send(order("a"), "{}").await;
    assert!(!first.headers.contains_key("idempotent-replayed"));
    assert_eq!(replay.headers["idempotent-replayed"], "true");
    assert!(!replay.is_replay(), "it has also the header of the draft");
    assert_eq!(first.body, replay.body);
}

#[tokio::test]
async fn a_key_with_another_payload_is_400_idempotency_error() {
    let shop = shop().await;
    shop.send(order("a"), "1").await;
    let refused = shop.send(order("a"), "2").await;
    let body = json!({"error": {"type": "idempotency_error"}});
    assert_eq!(refusal(&refused), (400, body));
    assert_eq!(refused.headers["stripe-should-retry"], "false");
}

#[tokio::test]
async fn a_key_of_a_running_request_is_409_idempotency_key_in_use() {
    let shop = shop().await;
    let running = shop.begin(order("a"), "1").await;
    let refused = shop.send(order("a"), "1").await;
    let error = json!({"type": "invalid_request_error", "code": "idempotency_key_in_use"});
    assert_eq!(refusal(&refused), (409, json!({ "error": error })));
    assert_eq!(refused.headers["stripe-should-retry"], "true");
    assert!(refused.headers.contains_key("retry-after"));
    let other = shop.send(order("a"), "2").await;
    assert_eq!(other.status, 400);
    assert_eq!(shop.end(running).await.status, 200);
    let replay = shop.send(order("a"), "1").await;
    assert_eq!(replay.headers["idempotent-replayed"], "true");
}

#[tokio::test]
async fn failures_of_the_server_are_stored_and_refused_parameters_are_not() {
    let shop = shop().await;
    let stored = [200, 201, 302, 402, 404, 409, 410, 424, 500, 502, 503, 504];
    let released = [400, 401, 403, 422, 429];
    for status in stored.into_iter().chain(released) {
        let key = format!("key {status}");
        let is_stored = stored.contains(&status);
        shop.assert_repeated(order(&key), status, is_stored).await;
    }
}

#[tokio::test]
async fn a_key_is_optional_and_only_the_key_of_a_post_counts() {
    let shop = shop().await;
    for request in [post("/orders"), order("a").method("PATCH")] {
        shop.assert_repeated(request, 200, false).await;
    }
}

#[tokio::test]
async fn a_key_is_any_text_of_255_characters() {
    let shop = shop().await;
    for key in ["a,b", "\"a", "order 42", "a \"b\"", &"k".repeat(255)] {
        shop.assert_repeated(order(key), 200, true).await;
    }
    // The quotes are a part of the key.
    shop.send(order("q"), "1").await;
    assert_eq!(shop.send(order("\"q\""), "2").await.status, 200);
    for (key, request) in [
        ("idempotency_key_malformed", order(&"k".repeat(256))),
        ("idempotency_key_malformed", order("")),
        (
            "idempotency_key_repeated",
            order("a").header("idempotency-key", "b"),
        ),
    ] {
        let refused = shop.send(request, "{}").await;
        let error = json!({"type": "invalid_request_error", "code": key});
        assert_eq!(refusal(&refused), (400, json!({ "error": error })));
    }
}

#[tokio::test]
async fn a_store_that_is_unavailable_is_an_api_error() {
    let shop = Shop::without_store(Profile::Stripe).await;
    let refused = shop.send(order("a"), "{}").await;
    let error = json!({"type": "api_error", "code": "store_unavailable"});
    assert_eq!(refusal(&refused), (503, json!({ "error": error })));
    assert_eq!(refused.headers["stripe-should-retry"], "true");
    assert_eq!(shop.orders.count(), 0);
}

#[tokio::test]
async fn a_client_does_not_retry_a_request_with_an_unknown_outcome() {
    let shop = shop().await;
    shop.send(order("a").header("x-hold", "yes"), "{}").await;
    let refused = shop.send(order("a"), "{}").await;
    let error = json!({"type": "invalid_request_error", "code": "outcome_unknown"});
    assert_eq!(refusal(&refused), (409, json!({ "error": error })));
    assert_eq!(refused.headers["stripe-should-retry"], "false");
}
