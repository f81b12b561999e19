//! A service, a network with faults before it, and the page in node.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream;
use idempotence::integrations::axum::IdempotencyKey;
use idempotence::testkit::FaultyStore;
use idempotence::{Idempotency, MemoryStore, Once, idempotent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const SCRIPT: &str = include_str!("../../../front_end.js");
const BROWSER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/examples/front_end/browser.js"
);

/// The fault that the network applies to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkFault {
    /// A proxy cannot reach the service.
    BadGateway,
    /// A proxy answers before the service does.
    GatewayTimeout,
    /// The connection closes in the middle of the answer.
    Lost,
    /// A login page of the network answers instead of the service.
    Login,
}

#[derive(Clone)]
pub(crate) struct Shop {
    idempotency: Idempotency,
    pub(crate) store: FaultyStore<MemoryStore>,
    requests: Arc<AtomicUsize>,
    /// The store works again before this request.
    heals_at: Arc<AtomicUsize>,
    orders: Arc<AtomicUsize>,
    /// The faults of the next requests. Requests after them reach the service.
    faults: Arc<Mutex<VecDeque<NetworkFault>>>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    item: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    order: usize,
    item: String,
}

#[idempotent(
    name = "orders.place",
    key = "idempotency_key",
    payload = "order",
    ttl = "1h",
    replay = true,
    using = shop.idempotency,
    on_cancel = "finish"
)]
async fn place(
    State(shop): State<Shop>,
    idempotency_key: IdempotencyKey,
    Json(order): Json<Order>,
) -> axum::response::Result<Once<Json<Receipt>>> {
    match &*order.item {
        "slow" => shop.has_requests(5).await,
        "endless" => std::future::pending().await,
        "unicorn" => return Err((StatusCode::CONFLICT, "There are no unicorns left.").into()),
        "bug" => return Err((StatusCode::INTERNAL_SERVER_ERROR, "at line 7").into()),
        item => {
            if let Some((code, action)) = item.split_once(": ") {
                return Err(problem(code, action).into());
            }
        }
    }
    Ok(Once::from(Json(Receipt {
        order: shop.orders.fetch_add(1, Ordering::SeqCst) + 1,
        item: order.item,
    })))
}

/// The codes of the errors for which the page shows no message.
pub(crate) const SILENT: [&str; 2] = ["already_done", "taken"];

/// The problem of an error of the library with this code.
fn problem(code: &str, action: &str) -> (StatusCode, Json<Value>) {
    let silent = SILENT.contains(&code);
    let problem =
        json!({ "code": code, "client_action": action, "silent": silent, "detail": code });
    (StatusCode::CONFLICT, Json(problem))
}

async fn network(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    let request_number = shop.requests.fetch_add(1, Ordering::SeqCst) + 1;
    if request_number == shop.heals_at.load(Ordering::SeqCst) {
        shop.store.heal();
    }
    let fault = shop.faults.lock().unwrap().pop_front();
    let page = |status| (status, Html("<h1>nginx</h1>")).into_response();
    match fault {
        None => next.run(request).await,
        Some(NetworkFault::BadGateway) => page(StatusCode::BAD_GATEWAY),
        Some(NetworkFault::Login) => page(StatusCode::OK),
        Some(NetworkFault::GatewayTimeout) => {
            next.run(request).await;
            page(StatusCode::GATEWAY_TIMEOUT)
        }
        Some(NetworkFault::Lost) => {
            let (head, _) = next.run(request).await.into_parts();
            let cut = std::io::Error::from(ErrorKind::ConnectionReset);
            let cut = stream::once(std::future::ready(Err::<&str, _>(cut)));
            Response::from_parts(head, Body::from_stream(cut))
        }
    }
}

/// Everything that the person saw.
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    /// The receipts. `None` means that the page loaded the state again.
    pub(crate) shown: Vec<Option<Receipt>>,
    pub(crate) messages: Vec<String>,
    /// The pauses of the script, in milliseconds.
    pub(crate) pauses: Vec<f64>,
    pub(crate) tokens: usize,
    /// The id of the next press of the button, if the script has one.
    pub(crate) id: Option<String>,
}

impl Shop {
    pub(crate) fn new() -> Self {
        let store = FaultyStore::new(MemoryStore::new());
        let builder = Idempotency::builder(store.clone());
        Self {
            idempotency: builder.deadline(Duration::from_millis(50)).build().unwrap(),
            store,
            requests: Arc::default(),
            heals_at: Arc::default(),
            orders: Arc::default(),
            faults: Arc::default(),
        }
    }

    pub(crate) fn meeting(faults: impl IntoIterator<Item = NetworkFault>) -> Self {
        let shop = Self::new();
        shop.faults.lock().unwrap().extend(faults);
        shop
    }

    pub(crate) fn heals_at(&self, request_number: usize) {
        self.heals_at.store(request_number, Ordering::SeqCst);
    }

    pub(crate) async fn has_requests(&self, many: usize) {
        while self.requests() < many {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn orders(&self) -> usize {
        self.orders.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) async fn visited(&self, scenario: &str) -> Seen {
        self.visited_with(SCRIPT, scenario).await
    }

    pub(crate) async fn visited_with(&self, script: &str, scenario: &str) -> Seen {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new()
            .route("/orders", post(place))
            .layer(from_fn_with_state(self.clone(), network))
            .with_state(self.clone());
        let server = tokio::spawn(async move { axum::serve(listener, app).await });
        let mut node = Command::new("node");
        node.args([BROWSER, &base, script, scenario]);
        let output = tokio::task::spawn_blocking(move || node.output());
        let output = output.await.unwrap().unwrap_or_else(|error| {
            panic!(
                "`node` runs examples/front_end.js, and cannot be started ({error}): \
                 install version 18 or newer with `apt-get install nodejs` or `brew install node`; `./test` does it by itself"
            )
        });
        server.abort();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Seen {
    pub(crate) fn orders(&self) -> Vec<Option<usize>> {
        let order = |receipt: &Option<Receipt>| receipt.as_ref().map(|receipt| receipt.order);
        self.shown.iter().map(order).collect()
    }

    /// Asserts that the person has the receipt of the first order and saw nothing else, and that the next press is a new order.
    pub(crate) fn has_a_receipt(&self) {
        assert_eq!(
            (&*self.orders(), &*self.messages),
            (&[Some(1)][..], &[][..]),
            "{self:?}"
        );
        assert_eq!(self.id, None, "{self:?}");
    }
}
