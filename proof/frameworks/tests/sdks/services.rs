//! Services that speak like those of vendors, behind the layer. A test counts their effects.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use axum::http::request::Parts;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use idempotence::http::{HasScope, IdempotencyLayer, KeySource, LayerBuilder, Profile};
use idempotence::{Idempotency, MemoryStore};

use crate::proxy::Proxy;

/// The services, and two routes for tests: `/effects/{text}` counts the handlers that ran for a request with this text, and
/// `/faults/{lost}/{cut}` sets the next faults of the proxy.
pub(crate) fn app(proxy: &Proxy) -> Router {
    let idempotency = Idempotency::new(MemoryStore::new());
    let layer = || IdempotencyLayer::builder(&idempotency).global_scope();
    let effects = Effects::default();
    let stripe = layer().profile(Profile::Stripe);
    let svix = layer().wait(A_WHILE);
    let square = layer().key_from(KeySource::json_field("idempotency_key"));
    let aws = IdempotencyLayer::builder(&idempotency).scope_by(operation);
    let aws = aws.key_from(KeySource::json_field("clientToken"));
    Router::new()
        .merge(vendor("/v1/charges", CHARGE, stripe, &effects))
        .merge(vendor(
            "/openai/chat/completions",
            COMPLETION,
            layer(),
            &effects,
        ))
        .merge(vendor("/api/v1/app/{app}/msg", MESSAGE, svix, &effects))
        .merge(vendor("/square/v2/payments", SQUARE, square, &effects))
        .merge(vendor("/", TASK, aws, &effects))
        .route("/effects/{text}", get(count).with_state(effects))
        .route(
            "/faults/{lost}/{cut}",
            get(set_faults).with_state(proxy.clone()),
        )
        .layer(map_response(close))
}

/// A service of a vendor at this path, which answers with `json`.
fn vendor(
    path: &'static str,
    json: &'static str,
    layer: LayerBuilder<impl HasScope>,
    effects: &Effects,
) -> Router {
    let effects = effects.clone();
    let handler = async move |body: String| effects.run(body, json).await;
    Router::new().route(path, post(handler).route_layer(layer.build()))
}

/// The requests whose handlers ran.
#[derive(Debug, Clone, Default)]
struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    /// The effect of a request. The texts `slowly` and `declined` in it are instructions.
    async fn run(self, body: String, json: &str) -> Response {
        let (is_slow, is_declined) = (body.contains("slowly"), body.contains("declined"));
        let number = {
            let mut effects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            effects.push(body);
            effects.len()
        };
        if is_slow {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let (status, json) = if is_declined {
            (StatusCode::PAYMENT_REQUIRED, DECLINED.to_owned())
        } else {
            (StatusCode::OK, json.replace("NUMBER", &number.to_string()))
        };
        let json_type = HeaderValue::from_static("application/json");
        (status, [(CONTENT_TYPE, json_type)], json).into_response()
    }
}

async fn count(State(effects): State<Effects>, Path(text): Path<String>) -> String {
    let effects = effects.0.lock().unwrap_or_else(PoisonError::into_inner);
    let with_text = effects.iter().filter(|body| body.contains(&text));
    with_text.count().to_string()
}

/// Sets the faults, and answers with the number of those that were left.
async fn set_faults(State(proxy): State<Proxy>, Path((lost, cut)): Path<(u32, u32)>) -> String {
    proxy.set_faults(lost, cut).to_string()
}

/// Closes the connection, because the proxy expects one reply on each.
async fn close(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// The operation of AWS, such as `AmazonEC2ContainerServiceV20141113.RunTask`.
fn operation(head: &Parts) -> Option<String> {
    Some(head.headers.get("x-amz-target")?.to_str().ok()?.to_owned())
}

const A_WHILE: Duration = Duration::from_secs(5);

const CHARGE: &str =
    r#"{"id": "ch_NUMBER", "object": "charge", "amount": 1200, "currency": "eur", "paid": true}"#;

const DECLINED: &str = r#"{"error": {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}}"#;

const COMPLETION: &str = r#"{"id": "cmpl-NUMBER", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0,
"finish_reason": "stop", "message": {"role": "assistant", "content": "yes", "refusal": null}}]}"#;

const MESSAGE: &str = r#"{"id": "msg_NUMBER", "eventType": "paid", "payload": {}, "timestamp": "2026-11-27T00:00:00Z"}"#;

const SQUARE: &str = r#"{"payment": {"id": "sq-NUMBER", "status": "COMPLETED"}}"#;

const TASK: &str = r#"{"tasks": [{"taskArn": "arn:NUMBER"}], "failures": []}"#;
