//! The HTTP layer: a repeated `POST` with the same `Idempotency-Key` gets the first response.

use std::error::Error;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use idempotence::http::{IdempotencyLayer, Payload};
use idempotence::store::async_trait;
use idempotence::{IdempotencyContext, Once};
use serde_json::{Value, from_slice, json};
use tower::ServiceExt as _;

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct HttpLayer(Router);

/// The handler. Only the layer knows about duplicates.
async fn pay(
    State(shop): State<Shop>,
    Extension(cx): Extension<IdempotencyContext>,
    Json(cents): Json<i64>,
) -> Response {
    let key = cx.downstream_key("bank.charge"); // the same in every run of this request
    match shop.bank.charge_once(cents, &key).await {
        Ok(paid) => Json(paid.into_inner()).into_response(),
        // After this status a retry runs the handler again.
        Err(error) => {
            let problem = Json(json!({ "code": error.code() }));
            (StatusCode::SERVICE_UNAVAILABLE, problem).into_response()
        }
    }
}

#[async_trait]
impl Mechanism for HttpLayer {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let layer = IdempotencyLayer::builder(&shop.idempotency)
            .scope_by_header(header::AUTHORIZATION)
            .require_key()
            .payload(Payload::json())
            .lease(shop.lease)
            .wait(Duration::from_secs(5))
            .build();
        let app = Router::new().route("/pay", post(pay)).route_layer(layer);
        Ok(Self(app.with_state(shop)))
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let response = self.0.clone().oneshot(request(order)?).await;
        let response = response.unwrap_or_else(|never| match never {});
        let is_replay = response.headers().contains_key("idempotency-replayed");
        let status = response.status();
        let body = to_bytes(response.into_body(), 64 * 1024).await;
        let body: Value = from_slice(&body.unwrap_or_default()).unwrap_or_default();
        match (body["number"].as_i64(), body["cents"].as_i64()) {
            (Some(number), Some(cents)) if is_replay => {
                Ok(Once::Replayed(Receipt { number, cents }))
            }
            (Some(number), Some(cents)) => Ok(Once::Executed(Receipt { number, cents })),
            _ => Err(BuyError::Http {
                status: status.as_u16(),
                code: body["code"].as_str().unwrap_or_default().to_owned(),
            }),
        }
    }
}

/// What the browser sends.
fn request(order: &Order) -> Result<Request, BuyError> {
    let request = Request::post("/pay")
        .header(header::AUTHORIZATION, format!("Bearer {}", order.user))
        .header(header::CONTENT_TYPE, "application/json")
        .header("idempotency-key", format!("\"{}\"", order.page))
        .body(Body::from(order.cents.to_string()));
    request.map_err(|_| BuyError::NotForSale)
}
