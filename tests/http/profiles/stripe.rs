//! Stripe, API version 1.

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use idempotence::http::Profile;
use serde_json::{Value, json};

use super::{Shop, keyed, refusal};
use support::http_client::{Reply, idempotency, post, scoped};

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
    let error = json!({"type": "idempotency_error", "code": "payload_mismatch"});
    assert_eq!(refusal(&refused), (400, json!({ "error": error })));
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
    let stored = [200, 201, 302, 402, 404, 410, 424, 500, 502, 503, 504];
    // Each SDK takes a conflict for transient.
    let released = [400, 401, 403, 409, 422, 429];
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

/// `POST /v1/charges` of `stripe-python` 16.
fn stripe_python(key: &str) -> http::request::Builder {
    order(key)
        .header(ACCEPT, "*/*")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(USER_AGENT, "Stripe/v1 PythonBindings/16.0.0")
        .header("stripe-version", "2025-09-30.clover")
}

/// Whether `stripe-python` 16 and `stripe-node` 23 send the request again.
fn is_retried(reply: &Reply) -> bool {
    match reply.headers.get("stripe-should-retry") {
        Some(should_retry) => should_retry == "true",
        None => reply.status == 409 || reply.status.is_server_error(),
    }
}

#[tokio::test]
async fn an_sdk_does_not_repeat_a_failure_that_is_stored_and_repeats_a_conflict() {
    let shop = shop().await;
    for (status, decision, expected) in [
        ("500", "", false),
        ("503", "", false),
        ("409", "", true),
        ("409", "x-store", false),
        ("409", "x-hold", false),
        ("500", "x-hold", false),
        ("500", "x-release", true),
    ] {
        let key = format!("{status} {decision}");
        for _ in 0..2 {
            let mut request = stripe_python(&key).header("x-status", status);
            if !decision.is_empty() {
                request = request.header(decision, "yes");
            }
            let reply = shop.service.send(request, "amount=7").await;
            assert_eq!(is_retried(&reply), expected, "{key} {reply:?}");
        }
    }
    let placed = shop.service.send(stripe_python("ok"), "amount=7").await;
    assert!(!placed.headers.contains_key("stripe-should-retry"));
}

#[tokio::test]
async fn a_response_has_the_key_of_its_request() {
    let shop = shop().await;
    for body in ["amount=7", "amount=7", "amount=8"] {
        let reply = shop.service.send(stripe_python("a"), body).await;
        // `StripeResponse.idempotency_key` and `lastResponse.idempotencyKey`.
        assert_eq!(reply.headers["idempotency-key"], "a", "{body}");
    }
}

#[tokio::test]
async fn the_order_of_the_fields_of_a_form_does_not_count() {
    let shop = shop().await;
    let send = async |body: &str| shop.service.send(stripe_python("a"), body).await.status;
    for (body, status) in [
        ("amount=7&currency=eur&expand[]=a&expand[]=b", 200),
        ("currency=eur&expand%5B%5D=a&amount=7&expand%5B%5D=b", 200),
        ("currency=eur&expand%5B%5D=b&amount=7&expand%5B%5D=a", 400),
        ("amount=7&currency=eur", 400),
    ] {
        assert_eq!(send(body).await, status, "{body}");
    }
    assert_eq!(shop.orders.count(), 1);
}

#[tokio::test]
async fn a_key_of_another_route_is_an_idempotency_error() {
    let shop = shop().await;
    assert_eq!(shop.send(order("a"), "{}").await.status, 200);
    for path in ["/orders/7", "/uploads"] {
        let refused = shop.send(keyed(path, "a"), "{}").await;
        let error = json!({"type": "idempotency_error", "code": "payload_mismatch"});
        assert_eq!(refusal(&refused), (400, json!({ "error": error })));
    }
    assert_eq!(shop.orders.count(), 1);
    let running = shop.begin(order("b"), "1").await;
    assert_eq!(shop.send(keyed("/uploads", "b"), "1").await.status, 400);
    assert_eq!(shop.end(running).await.status, 200);
}

#[tokio::test]
async fn a_key_belongs_to_a_connected_account() {
    let shop = shop().await;
    for account in ["acct_1", "acct_2"] {
        let request = order("a").header("stripe-account", account);
        shop.assert_repeated(request, 200, true).await;
    }
    shop.assert_repeated(order("a"), 200, true).await;
    assert_eq!(shop.orders.count(), 3);
}

#[tokio::test]
async fn an_operator_finds_the_key_of_a_request() {
    let idempotency = idempotency();
    let layer = scoped(&idempotency).profile(Profile::Stripe).build();
    let app = axum::Router::new().route("/orders", axum::routing::post(async || "placed"));
    let app = app.route_layer(layer.clone());
    let service = support::http_client::Service::start(app).await;
    service.send(order("a"), "{}").await;
    let (head, ()) = order("a").body(()).unwrap().into_parts();
    let found = layer.peek("POST /orders", &head).await.unwrap();
    idempotency.forget(&found.unwrap()).await.unwrap();
    assert!(layer.peek("POST /orders", &head).await.unwrap().is_none());
    let again = service.send(order("a"), "{}").await;
    assert!(!again.headers.contains_key("idempotent-replayed"));
}

#[tokio::test]
async fn an_error_speaks_to_the_programmer_and_names_the_docs() {
    let layer = scoped(&idempotency()).profile(Profile::Stripe);
    let shop = Shop::of(layer.docs_url("https://bank.example/docs/retries")).await;
    shop.send(order("a"), "1").await;
    let refused = shop.send(order("a"), "2").await;
    let body: Value = serde_json::from_slice(&refused.body).unwrap();
    let error = &body["error"];
    assert_eq!(error["doc_url"], "https://bank.example/docs/retries");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("An idempotency key belongs to one request"),
        "{message}"
    );
    let chinese = order("a").header("accept-language", "zh");
    let refused = shop.send(chinese, "2").await;
    assert!(
        refused.text().contains("幂等键只属于一个请求"),
        "{}",
        refused.text()
    );
}
