//! node runs `examples/front_end.js` against a service. An order is placed once for each fault of the network, and the page shows the
//! person the true result.

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
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotence::{Idempotency, MemoryStore, Once, StoreErrorKind, idempotent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const SCRIPT: &str = include_str!("../../front_end.js");
const BROWSER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/examples/front_end/browser.js"
);

/// The fault that the network applies to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
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
struct Shop {
    idempotency: Idempotency,
    store: FaultyStore<MemoryStore>,
    requests: Arc<AtomicUsize>,
    orders: Arc<AtomicUsize>,
    /// The faults of the next requests. Requests after them reach the service.
    ways: Arc<Mutex<VecDeque<Way>>>,
}

#[derive(Serialize, Deserialize)]
struct Order {
    item: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
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
const SILENT: [&str; 2] = ["already_done", "taken"];

/// The problem of an error of the library with this code.
fn problem(code: &str, action: &str) -> (StatusCode, Json<Value>) {
    let silent = SILENT.contains(&code);
    let problem =
        json!({ "code": code, "client_action": action, "silent": silent, "detail": code });
    (StatusCode::CONFLICT, Json(problem))
}

async fn network(State(shop): State<Shop>, request: Request, next: Next) -> Response {
    shop.requests.fetch_add(1, Ordering::SeqCst);
    let way = shop.ways.lock().unwrap().pop_front();
    let page = |status| (status, Html("<h1>nginx</h1>")).into_response();
    match way {
        None => next.run(request).await,
        Some(Way::BadGateway) => page(StatusCode::BAD_GATEWAY),
        Some(Way::Login) => page(StatusCode::OK),
        Some(Way::GatewayTimeout) => {
            next.run(request).await;
            page(StatusCode::GATEWAY_TIMEOUT)
        }
        Some(Way::Lost) => {
            let (head, _) = next.run(request).await.into_parts();
            let cut = std::io::Error::from(ErrorKind::ConnectionReset);
            let cut = stream::once(std::future::ready(Err::<&str, _>(cut)));
            Response::from_parts(head, Body::from_stream(cut))
        }
    }
}

/// Everything that the person saw.
#[derive(Debug, Deserialize)]
struct Seen {
    /// The receipts. `None` means that the page loaded the state again.
    shown: Vec<Option<Receipt>>,
    messages: Vec<String>,
    /// The pauses of the script, in milliseconds.
    pauses: Vec<f64>,
    tokens: usize,
    /// The id of the next press of the button, if the script has one.
    id: Option<String>,
}

impl Shop {
    fn new() -> Self {
        let store = FaultyStore::new(MemoryStore::new());
        let builder = Idempotency::builder(store.clone());
        Self {
            idempotency: builder.deadline(Duration::from_millis(50)).build().unwrap(),
            store,
            requests: Arc::default(),
            orders: Arc::default(),
            ways: Arc::default(),
        }
    }

    fn meeting(ways: impl IntoIterator<Item = Way>) -> Self {
        let shop = Self::new();
        shop.ways.lock().unwrap().extend(ways);
        shop
    }

    async fn has_requests(&self, many: usize) {
        while self.requests() < many {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn orders(&self) -> usize {
        self.orders.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    async fn visited(&self, scenario: &str) -> Seen {
        self.visited_with(SCRIPT, scenario).await
    }

    async fn visited_with(&self, script: &str, scenario: &str) -> Seen {
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
    fn orders(&self) -> Vec<Option<usize>> {
        let order = |receipt: &Option<Receipt>| receipt.as_ref().map(|receipt| receipt.order);
        self.shown.iter().map(order).collect()
    }

    /// Asserts that the person has the receipt of the first order and saw nothing else, and that the next press is a new order.
    fn has_a_receipt(&self) {
        assert_eq!(
            (&*self.orders(), &*self.messages),
            (&[Some(1)][..], &[][..]),
            "{self:?}"
        );
        assert_eq!(self.id, None, "{self:?}");
    }
}

const PRESS: &str = r#"await press({ item: "tea" });"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_is_one_request() {
    let shop = Shop::new();
    let seen = shop
        .visited(r#"press({ item: "tea" }); await press({ item: "tea" });"#)
        .await;
    seen.has_a_receipt();
    assert_eq!((shop.orders(), shop.requests()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_submits_at_once_are_one_order_and_both_get_its_receipt() {
    let shop = Shop::new();
    let seen = shop
        .visited(
            r#"const order = { item: "slow" };
            seen.shown = await Promise.all([submit(order), submit(order), submit(order)]);"#,
        )
        .await;
    assert_eq!(seen.orders(), [Some(1); 3], "{seen:?}");
    assert_eq!((shop.orders(), seen.id), (1, None));
    let hint = 1000.0..=10_000.0;
    let pauses = &seen.pauses;
    assert!(
        pauses.len() > 1 && pauses.iter().all(|ms| hint.contains(ms)),
        "{pauses:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_press_after_a_receipt_is_another_order() {
    let shop = Shop::new();
    let seen = shop.visited(&PRESS.repeat(2)).await;
    assert_eq!(seen.orders(), [Some(1), Some(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_stops_asking_for_an_endless_order_and_shows_no_error() {
    let shop = Shop::new();
    let seen = shop
        .visited(
            r#"submit({ item: "endless" }).catch(() => {});
            await press({ item: "endless" });"#,
        )
        .await;
    assert_eq!(
        (seen.orders(), &*seen.messages),
        (vec![None], &[][..]),
        "{seen:?}"
    );
    assert!(
        seen.id.is_some(),
        "the order may still fail, so the next press must send the same id"
    );
    let paused: f64 = seen.pauses.iter().sum();
    assert!(
        (30_000.0..=120_000.0).contains(&paused),
        "{:?}",
        seen.pauses
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_waits_for_a_store_that_recovers() {
    let shop = Shop::new();
    shop.store
        .always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let person = tokio::spawn({
        let shop = shop.clone();
        async move { shop.visited(PRESS).await }
    });
    shop.has_requests(3).await;
    shop.store.heal();
    person.await.unwrap().has_a_receipt();
    assert_eq!(shop.orders(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_reports_a_long_outage_and_the_next_press_is_the_same_order() {
    let shop = Shop::new();
    shop.store
        .always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    let seen = shop.visited(PRESS).await;
    assert_eq!(
        seen.messages,
        ["The service is busy. Please try again in a moment."]
    );
    assert!(seen.shown.is_empty() && seen.id.is_some(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_repeats_a_request_without_an_answer_of_the_service() {
    for way in [Way::BadGateway, Way::GatewayTimeout, Way::Lost, Way::Login] {
        let shop = Shop::meeting([way]);
        shop.visited(PRESS).await.has_a_receipt();
        assert_eq!((shop.orders(), shop.requests()), (1, 2), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_does_not_show_the_answer_of_a_proxy() {
    let shop = Shop::meeting([Way::BadGateway; 9]);
    let seen = shop.visited(PRESS).await;
    assert_eq!(
        seen.messages,
        ["The service is not available. Please try again."]
    );
    assert!(seen.shown.is_empty() && seen.id.is_some(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_order_after_a_lost_answer_is_placed_once_the_person_has_seen_the_first() {
    let shop = Shop::meeting([Way::Lost; 6]);
    let cup = r#"await press({ item: "cup" });"#;
    let presses = format!("{PRESS} {cup} {cup} renew(intent()); {cup}");
    let seen = shop.visited(&presses).await;
    let changed =
        "Your request was changed after it was first sent. Please start again with a new one.";
    let messages = ["No connection. Please try again.", changed, changed];
    assert_eq!(seen.messages, messages);
    assert_eq!((seen.orders(), shop.orders()), (vec![Some(2)], 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_in_plain_text_is_shown_at_once_and_a_corrected_order_is_new() {
    let shop = Shop::new();
    let press = format!(r#"await press({{ item: "unicorn" }}); seen.first = id(); {PRESS}"#);
    let seen = shop.visited(&press).await;
    assert_eq!(seen.messages, ["There are no unicorns left."]);
    assert_eq!((seen.orders(), seen.tokens), (vec![Some(1)], 1));
    assert_eq!((shop.requests(), seen.pauses.len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_error_is_shown_without_its_text_and_keeps_the_id() {
    let shop = Shop::new();
    let seen = shop.visited(r#"await press({ item: "bug" });"#).await;
    assert_eq!(
        seen.messages,
        ["The service is not available. Please try again."]
    );
    assert!(seen.id.is_some(), "{seen:?}");

    // The order may be placed: its answer was lost, and then the server failed.
    let shop = Shop::meeting([Way::Lost]);
    shop.store.next(Op::Claim, Fault::Delay(Duration::ZERO));
    shop.store
        .always(Op::Claim, Fault::Fail(StoreErrorKind::Misconfigured));
    let seen = shop.visited(PRESS).await;
    assert_eq!(
        seen.messages,
        ["Your request cannot be processed. Please contact support."]
    );
    assert!(seen.id.is_some() && shop.orders() == 1, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_keeps_the_id_until_the_page_has_seen_the_state() {
    for (item, tokens, keeps_the_id) in [
        ("lease_lost: refresh", 0, true),
        ("outcome_unknown: refresh", 0, true),
        ("taken: refresh", 0, true),
        ("token_used: new_token", 1, true),
        ("token_unknown: new_token", 1, true),
        ("scope_missing: fix", 0, true),
        ("payload_mismatch: fix", 0, true),
        ("payload_malformed: fix", 0, false),
        ("already_done: ignore", 0, false),
        ("result_unavailable: refresh", 0, false),
    ] {
        let press = format!(r#"await press({{ item: "{item}" }});"#);
        let seen = Shop::new().visited(&press).await;
        let (code, _) = item.split_once(": ").unwrap();
        let (orders, messages) = if SILENT.contains(&code) {
            (vec![None], vec![])
        } else {
            (vec![], vec![code])
        };
        assert_eq!((seen.orders(), seen.tokens), (orders, tokens), "{item}");
        assert_eq!(seen.messages, messages, "{item}");
        assert_eq!(seen.id.is_some(), keeps_the_id, "{item}");
        assert!(seen.pauses.is_empty(), "{item}: {:?}", seen.pauses);

        // The loaded state shows the order, so the next press is a new order.
        let seen = Shop::new()
            .visited(&format!("{press} renew(intent());"))
            .await;
        assert_eq!(seen.id, None, "{item}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_with_a_new_id_for_each_try_places_two_orders() {
    let mutant = SCRIPT.replace(
        "await send(id, body)",
        "await send(crypto.randomUUID(), body)",
    );
    assert_ne!(mutant, SCRIPT);
    let shop = Shop::meeting([Way::Lost]);
    shop.visited_with(&mutant, PRESS).await;
    assert_eq!(shop.orders(), 2);
}
