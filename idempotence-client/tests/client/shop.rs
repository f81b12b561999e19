//! A shop whose orders are guarded by the layer of the crate `idempotence`, and which counts them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use idempotence::Idempotency;
use idempotence::http::{Decision, IdempotencyLayer, Profile};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// What the servers of a shop share.
#[derive(Clone)]
pub(crate) struct Shop {
    orders: Arc<Mutex<HashMap<String, usize>>>,
    requests: Arc<Mutex<Vec<HeaderMap>>>,
    /// Opens for orders of `slow`.
    pub(crate) gate: Arc<Semaphore>,
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self {
            orders: Arc::default(),
            requests: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    /// How often each order was placed.
    pub(crate) fn orders(&self) -> HashMap<String, usize> {
        self.orders.lock().unwrap().clone()
    }

    /// The headers of all requests that have reached a server.
    pub(crate) fn requests(&self) -> Vec<HeaderMap> {
        self.requests.lock().unwrap().clone()
    }

    /// A server with this convention on a free port.
    pub(crate) async fn serve(&self, idempotency: &Idempotency, profile: Profile) -> SocketAddr {
        let guarded = IdempotencyLayer::builder(idempotency)
            .profile(profile)
            .global_scope()
            .build();
        let app = Router::new()
            .route("/orders", post(place))
            .route("/moved", post(async || redirect("/orders")))
            .route("/moved/{port}", post(move_to))
            .route_layer(guarded)
            .layer(from_fn_with_state(self.clone(), count))
            .with_state(self.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        address
    }
}

async fn place(State(shop): State<Shop>, order: String) -> Response {
    let number = {
        let mut orders = shop.orders.lock().unwrap();
        *orders.entry(order.clone()).or_default() += 1;
        orders.len()
    };
    match &*order {
        "slow" => shop.gate.acquire().await.unwrap().forget(),
        "unsure" => {
            return (StatusCode::BAD_GATEWAY, axum::Extension(Decision::Hold)).into_response();
        }
        _ => {}
    }
    (
        StatusCode::CREATED,
        [("location", format!("/orders/{number}"))],
        order,
    )
        .into_response()
}

async fn move_to(uri: Uri) -> Response {
    let port = uri.path().trim_start_matches("/moved/");
    redirect(&format!("http://127.0.0.1:{port}/orders"))
}

fn redirect(to: &str) -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response()
}

async fn count(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    shop.requests
        .lock()
        .unwrap()
        .push(request.headers().clone());
    next.run(request).await
}

/// A client that opens a connection for each try.
pub(crate) fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
}

/// Waits until the condition is true, for at least two minutes.
pub(crate) async fn until(is_true: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_true() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not true within two minutes");
}
