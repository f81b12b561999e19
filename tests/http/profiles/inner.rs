//! A refusal of this crate that a handler returns has the form of the layer around it.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post as on_post};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use idempotence::http::{HasScope, LayerBuilder, Profile};
use idempotence::integrations::axum::{IdempotencyKey, refusal, refusal_as};
use idempotent_runtime::{Error, Idempotency, Lang};
use serde_json::{Value, json};

use support::http_client::{Reply, Service, idempotency, post, scoped};

/// Always refused: the key has its work already.
async fn transfer(idempotency: &Idempotency) -> Result<&'static str, Error> {
    let call = || {
        let call = idempotency.call("transfer").key(&7);
        call.ttl(Duration::from_mins(1))
            .run(async { Ok::<_, Error>("moved") })
    };
    call().await.ok();
    call().await
}

/// A handler that makes its own response of a refusal.
async fn own(State(idempotency): State<Idempotency>) -> Response {
    let mut response = refusal(transfer(&idempotency).await.unwrap_err(), Lang::En);
    *response.body_mut() = "{\"own\":true}".into();
    response
}

async fn bank(layer: LayerBuilder<impl HasScope>) -> Service {
    let refused = async |State(idempotency): State<Idempotency>| transfer(&idempotency).await;
    let app = Router::new()
        .route("/v1/transfers", on_post(refused))
        .route("/v1/own", on_post(own))
        .route("/v1/keyed", get(async |_: IdempotencyKey| "found"))
        .route_layer(layer.build())
        .with_state(idempotency());
    Service::start(app).await
}

/// A request of `stripe-node` 23.
fn stripe_node(path: &str) -> http::request::Builder {
    post(path)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(USER_AGENT, "Stripe/v1 NodeBindings/23.0.0")
        .header(
            "idempotency-key",
            "stripe-node-retry-8e03978e-40d5-43e8-bc93-6894a57f9324",
        )
}

/// Whether `stripe-node` rejects the promise: it looks for the member `error`, and for nothing else.
fn rejects(reply: &Reply) -> bool {
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    body.get("error").is_some()
}

#[tokio::test]
async fn stripe_node_takes_a_refusal_of_an_inner_call_for_an_error() {
    let bank = bank(scoped(&idempotency()).profile(Profile::Stripe)).await;
    let with_key = stripe_node("/v1/transfers");
    let mut without_key = stripe_node("/v1/transfers");
    let headers = without_key.headers_mut().unwrap();
    headers.remove("idempotency-key");
    for request in [with_key, without_key] {
        let refused = bank.send(request, "amount=7&currency=eur").await;
        assert!(rejects(&refused), "{}", refused.text());
        let (status, body) = super::refusal(&refused);
        let error = json!({"type": "invalid_request_error", "code": "already_done"});
        assert_eq!((status, body), (409, json!({ "error": error })));
        assert_eq!(refused.headers["stripe-should-retry"], "false");
        assert_eq!(refused.headers["content-language"], "en");
    }
}

#[tokio::test]
async fn azure_core_finds_the_message_of_a_refusal_of_an_inner_call() {
    let bank = bank(scoped(&idempotency()).profile(Profile::Repeatability)).await;
    let refused = bank.send(post("/v1/transfers"), "{}").await;
    let body: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(refused.headers[CONTENT_TYPE], "application/json");
    assert_eq!(body["error"]["code"], "already_done");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.len() > 10, "{message}");
}

#[tokio::test]
async fn an_extractor_inside_of_the_layer_refuses_in_its_form() {
    let bank = bank(scoped(&idempotency()).profile(Profile::Acp)).await;
    let refused = bank.send(post("/v1/keyed").method("GET"), "").await;
    let body = json!({"type": "invalid_request", "code": "idempotency_key_required"});
    assert_eq!(super::refusal(&refused), (400, body));
}

#[tokio::test]
async fn the_program_replaces_the_refusal_of_an_inner_call_as_each_other() {
    let layer = scoped(&idempotency()).on_reject(|rejection, mut response| {
        let language = rejection.lang().tag().parse().unwrap();
        response.headers_mut().insert("x-language", language);
        assert!(rejection.error().is_some());
        response.map(|_| rejection.code().into())
    });
    let refused = bank(layer).await.send(post("/v1/transfers"), "").await;
    let seen = (refused.status.as_u16(), refused.text());
    assert_eq!(seen, (409, "already_done"));
    assert_eq!(refused.headers["x-language"], "en");
}

#[tokio::test]
async fn a_response_that_the_handler_has_made_of_a_refusal_stays() {
    let bank = bank(scoped(&idempotency()).profile(Profile::Stripe)).await;
    let refused = bank.send(stripe_node("/v1/own"), "").await;
    assert_eq!(refused.text(), "{\"own\":true}");
    assert_eq!(refused.headers[CONTENT_TYPE], "application/problem+json");
}

#[tokio::test]
async fn a_route_without_a_layer_refuses_in_the_form_of_a_profile() {
    let error = transfer(&idempotency()).await.unwrap_err();
    for (profile, content_type, code) in [
        (Profile::Ietf, "application/problem+json", "/code"),
        (Profile::Stripe, "application/json", "/error/code"),
        (Profile::Acp, "application/json", "/code"),
        (Profile::Repeatability, "application/json", "/error/code"),
    ] {
        let response = refusal_as(error.clone(), Lang::En, profile);
        let reply = Reply::read(response.into_response()).await;
        assert_eq!(reply.status, 409);
        assert_eq!(reply.headers[CONTENT_TYPE], content_type);
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(body.pointer(code).unwrap(), "already_done", "{profile:?}");
        let should_retry = reply.headers.contains_key("stripe-should-retry");
        assert_eq!(should_retry, profile == Profile::Stripe);
    }
}
