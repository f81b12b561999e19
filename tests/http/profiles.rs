//! The conventions of public APIs, row by row as in `docs/guide/http-profiles.md`.

mod acp;
mod inner;
mod overrides;
mod repeatability;
mod stripe;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use idempotence::http::{Decision, HasScope, LayerBuilder, Profile};
use idempotence::testkit::{Fault, FaultyStore};
use idempotent_runtime::{Idempotency, MemoryStore, StoreErrorKind};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use support::http_client::{Orders, Reply, Service, idempotency, keyed, scoped, within};

/// A shop whose orders follow a convention.
#[derive(Clone)]
struct Shop {
    service: Arc<Service>,
    orders: Orders,
    /// Lets waiting orders end.
    gate: Arc<Semaphore>,
}

impl Shop {
    async fn start(profile: Profile) -> Self {
        Self::of(scoped(&idempotency()).profile(profile)).await
    }

    /// A shop whose store is unavailable.
    async fn without_store(profile: Profile) -> Self {
        let store = FaultyStore::new(MemoryStore::new());
        store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
        Self::of(scoped(&Idempotency::new(store)).profile(profile)).await
    }

    async fn of(layer: LayerBuilder<impl HasScope>) -> Self {
        let (orders, gate) = (Orders::default(), Arc::new(Semaphore::new(0)));
        let app = Router::new()
            .route("/orders", any(answer))
            .route("/orders/{id}", any(answer))
            .route("/uploads", any(answer))
            .route_layer(layer.build())
            .with_state((orders.clone(), Arc::clone(&gate)));
        let service = Arc::new(Service::start(app).await);
        Self {
            service,
            orders,
            gate,
        }
    }

    async fn send(&self, request: http::request::Builder, body: &str) -> Reply {
        let request = request.header(CONTENT_TYPE, "application/json");
        self.service.send(request, body).await
    }

    /// Sends a request whose handler waits for [`end`](Self::end). Returns when the handler runs.
    async fn begin(
        &self,
        request: http::request::Builder,
        body: &'static str,
    ) -> JoinHandle<Reply> {
        let (shop, before) = (self.clone(), self.orders.count());
        let request = request.header("x-wait", "yes");
        let running = tokio::spawn(async move { shop.send(request, body).await });
        within(async {
            while self.orders.count() == before {
                yield_now().await;
            }
        })
        .await;
        running
    }

    async fn end(&self, running: JoinHandle<Reply>) -> Reply {
        self.gate.add_permits(1);
        within(running).await.unwrap()
    }

    /// Asserts what two equal requests get whose handler answers with this status.
    async fn assert_repeated(&self, request: http::request::Builder, status: u16, is_stored: bool) {
        let before = self.orders.count();
        let parts = request.header("x-status", status).body(()).unwrap();
        let mut bodies = Vec::new();
        for _ in 0..2 {
            let mut request = http::Request::builder()
                .method(parts.method())
                .uri(parts.uri());
            *request.headers_mut().unwrap() = parts.headers().clone();
            let reply = self.send(request, "{}").await;
            assert_eq!(reply.status, status);
            bodies.push(reply.body);
        }
        let runs = self.orders.count() - before;
        assert_eq!(runs, if is_stored { 1 } else { 2 }, "{status}");
        assert_eq!(bodies[0] == bodies[1], is_stored, "{status}");
    }
}

async fn answer(
    State((orders, gate)): State<(Orders, Arc<Semaphore>)>,
    headers: HeaderMap,
) -> Response {
    let order = orders.place();
    if headers.contains_key("x-wait") {
        gate.acquire().await.unwrap().forget();
    }
    let status = headers.get("x-status");
    let status = status.map_or(200, |status| status.to_str().unwrap().parse().unwrap());
    let status = StatusCode::from_u16(status).unwrap();
    let mut response = (status, Body::from(json!({ "order": order }).to_string())).into_response();
    for (header, decision) in [
        ("x-hold", Decision::Hold),
        ("x-store", Decision::Store),
        ("x-release", Decision::Release),
    ] {
        if headers.contains_key(header) {
            response.extensions_mut().insert(decision);
        }
    }
    response
}

/// The status of a refusal, and its body without the text for people.
fn refusal(reply: &Reply) -> (u16, Value) {
    assert!(!reply.is_replay());
    let mut body: Value = serde_json::from_slice(&reply.body).expect("JSON");
    let error = if body.get("error").is_some() {
        &mut body["error"]
    } else {
        &mut body
    };
    let error = error.as_object_mut().unwrap();
    error.remove("doc_url");
    let message = error.remove("message");
    assert!(message.is_some_and(|message| message.as_str().is_some_and(|text| text.len() > 10)));
    assert_eq!(reply.headers[CONTENT_TYPE], "application/json");
    (reply.status.as_u16(), body)
}
