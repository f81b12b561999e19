//! Requests to a handler of axum, which is guarded in different ways.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::Response;
use axum::routing::post;
use idempotence::Idempotency;
use idempotence::http::IdempotencyLayer;
use tower_service::Service;

use self::handler::{BODY, payment};
use crate::server::Scripted;

/// The same middleware as in the benchmark of HTTP.
#[path = "../../src/http/by_hand.rs"]
mod by_hand;
#[path = "../../src/http/handler.rs"]
mod handler;

const TTL: Duration = Duration::from_secs(30);
const KEPT: Duration = Duration::from_hours(1);

/// A random owner, as 32 characters.
fn owner() -> String {
    let (owner, mut hex) = (rand::random::<[u8; 16]>(), [0; 32]);
    let hex = base16ct::lower::encode_str(&owner, &mut hex);
    hex.expect("two characters per byte").to_owned()
}

/// What guards the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    Layer,
    ByHand,
    Nothing,
}

impl Guard {
    /// The guarded handler. By hand it uses `connection`, else `handle`.
    pub(crate) async fn routes(self, handle: &Idempotency, connection: Option<Scripted>) -> Router {
        let routes = Router::new().route("/payments", post(payment));
        match (self, connection) {
            (Self::ByHand, Some(connection)) => by_hand::Guard::new(connection).await.guard(routes),
            (Self::Layer, _) => {
                let layer = IdempotencyLayer::builder(handle).global_scope();
                routes.route_layer(layer.lease(TTL).ttl(KEPT).build())
            }
            _ => routes,
        }
    }
}

/// Sends a request with this key, and reads the response. Returns whether it is a replay.
///
/// # Panics
///
/// If it is not the response of the handler.
pub(crate) async fn send(routes: &mut Router, key: u64) -> bool {
    let key = Bytes::from(format!("\"{key:032x}\""));
    let key = HeaderValue::from_maybe_shared(key).expect("visible characters");
    let request = Request::post("/payments")
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .header("idempotency-key", key)
        .header(CONTENT_LENGTH, BODY.len())
        .body(Body::from(BODY))
        .expect("a request");
    let response: Result<Response, Infallible> = routes.call(request).await;
    let (head, body) = response.unwrap_or_else(|never| match never {}).into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body in memory");
    assert_eq!((head.status, body.len()), (StatusCode::CREATED, 1024));
    head.headers.contains_key("idempotency-replayed")
}
