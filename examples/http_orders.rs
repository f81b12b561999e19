//! A shop by HTTP: every `POST` is safe to repeat with the same `Idempotency-Key`.
//!
//! ```text
//! cargo run -p idempotence-examples --features http --bin http_orders
//! curl -i localhost:3000/orders -H 'Authorization: Bearer ada' -H 'Idempotency-Key: "8e03978e"' \
//!     --json '{"item": "a book", "cents": 1200}'
//! ```
//!
//! The layers, from the outside. A replay passes all but the handler:
//!
//! ```text
//! trace           a line for each request, and what the idempotency layer did
//! authenticate    who asks: 401 for a stranger
//! limit           at most so many requests a minute for each user: 429
//! idempotency     a repeated request gets the first response; each user has own keys
//! handler         places the order in one transaction with its dedup row
//! ```
//!
//! The idempotency layer covers everything that the handler does. A crash of the process after the commit, but before the
//! response is stored, would run the handler again. The row in the transaction of the order prevents the second order.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use idempotence::http::{ContinueLayer, Decision, IdempotencyLayer, IdempotencyOutcome, Payload};
use idempotence::integrations::axum::IdempotencyKey;
use idempotence::sql::{self, Retry};
use idempotence::{Counter, Error, Event, Idempotency, SqliteStore, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{SqliteConnection, SqlitePool};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".into());
    let file = args
        .next()
        .map_or_else(|| "orders.db".into(), PathBuf::from);
    let pool = open(file).await?;
    let metrics = Metrics::default();
    let counted = metrics.clone();
    let idempotency = Idempotency::builder(SqliteStore::new(pool.clone()))
        .observer(move |event: &Event<'_>| counted.count(event))
        .build()?;
    idempotency.install()?;

    let listener = tokio::net::TcpListener::bind(&*address.to_string_lossy()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let shop = Shop {
        pool,
        requests: idempotency.counter("shop.requests", 30, Duration::from_mins(1))?,
    };
    axum::serve(listener, app(shop, metrics, &idempotency))
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    // Handlers still run for clients that closed their connection.
    if let Err(error) = idempotency.drain(Duration::from_secs(30)).await {
        println!("{} requests did not end in time", error.remaining());
    }
    println!("stopped");
    Ok(())
}

#[derive(Clone)]
struct Shop {
    pool: SqlitePool,
    requests: Counter,
}

fn app(shop: Shop, metrics: Metrics, idempotency: &Idempotency) -> Router {
    let repeatable = IdempotencyLayer::builder(idempotency)
        .scope_by_extension(|user: &User| user.id)
        .require_key()
        .payload(Payload::json())
        .wait(Duration::from_secs(2))
        .build();
    // `route_layer` wraps the routes above it, and not the answer to an unknown path. The last layer is the outermost.
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(show))
        .route("/orders/{id}/pay", post(pay))
        .route_layer(repeatable)
        .route_layer(from_fn_with_state(shop.clone(), limit))
        .route_layer(from_fn(authenticate))
        .route("/metrics", get(async move || metrics.to_text()))
        .layer(from_fn(trace))
        .layer(ContinueLayer::new())
        .with_state(shop)
}

// The layers.

/// Logs each request, with what the idempotency layer did: it is an extension of the response.
async fn trace(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let outcome = response.extensions().get::<IdempotencyOutcome>();
    let error = response.extensions().get::<Arc<Error>>();
    tracing::info!(%method, path, status = response.status().as_u16(), ?outcome, ?error);
    response
}

#[derive(Debug, Clone)]
struct User {
    id: u32,
}

/// Finds the user of the bearer token. The idempotency layer reads the extension.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION);
    let id = match token.and_then(|token| token.to_str().ok()) {
        Some("Bearer ada") => 7,
        Some("Bearer bob") => 8,
        _ => return StatusCode::UNAUTHORIZED.into_response(),
    };
    request.extensions_mut().insert(User { id });
    next.run(request).await
}

/// Counts the requests of a user. Replays count, too: a client that repeats without end gets 429.
async fn limit(
    State(shop): State<Shop>,
    Extension(user): Extension<User>,
    request: Request,
    next: Next,
) -> Response {
    match shop.requests.attempt(&user.id).await {
        Ok(_) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

// The handlers.

#[derive(Deserialize, Serialize)]
struct Order {
    item: String,
    cents: i64,
}

#[derive(Deserialize, Serialize)]
struct Placed {
    id: i64,
}

/// Places an order: the order and its dedup row are committed together.
async fn place(
    State(shop): State<Shop>,
    Extension(user): Extension<User>,
    key: IdempotencyKey,
    Json(order): Json<Order>,
) -> Result<(StatusCode, HeaderMap, Json<Placed>), ShopError> {
    if order.cents <= 0 {
        return Err(ShopError::NoPrice);
    }
    let id = sql::retry(&shop.pool, Retry::with_row(), |tx| {
        Box::pin(insert(tx, user.id, &key, &order))
    })
    .await?;
    let location = HeaderValue::try_from(format!("/orders/{id}"))?;
    Ok((
        StatusCode::CREATED,
        HeaderMap::from_iter([(header::LOCATION, location)]),
        Json(Placed { id }),
    ))
}

#[idempotent(name = "orders.insert", key = "user, key", payload = "order", ttl = "7d", replay = true, tx = tx)]
async fn insert(
    tx: &mut SqliteConnection,
    user: u32,
    key: &IdempotencyKey,
    order: &Order,
) -> Result<i64, ShopError> {
    let insert = sqlx::query_scalar(
        "INSERT INTO orders (user_id, item, cents) VALUES (?, ?, ?) RETURNING id",
    );
    let id = insert
        .bind(user)
        .bind(&order.item)
        .bind(order.cents)
        .fetch_one(tx)
        .await?;
    Ok(id)
}

/// Shows an order. A `GET` changes nothing, so the layer ignores its key.
async fn show(
    State(shop): State<Shop>,
    Extension(user): Extension<User>,
    Path(id): Path<i64>,
) -> Result<Json<Order>, ShopError> {
    let select = sqlx::query_as("SELECT item, cents FROM orders WHERE id = ? AND user_id = ?");
    let found: Option<(String, i64)> = select
        .bind(id)
        .bind(user.id)
        .fetch_optional(&shop.pool)
        .await?;
    let (item, cents) = found.ok_or(ShopError::NoSuchOrder)?;
    Ok(Json(Order { item, cents }))
}

#[derive(Deserialize)]
struct Payment {
    card: String,
}

/// Pays an order at a bank, which is slow and may not answer.
async fn pay(
    State(shop): State<Shop>,
    Extension(user): Extension<User>,
    Path(id): Path<i64>,
    Json(payment): Json<Payment>,
) -> Result<Response, ShopError> {
    // Everything that can refuse the payment is checked before the card is charged.
    let select = sqlx::query_scalar("SELECT paid FROM orders WHERE id = ? AND user_id = ?");
    let found: Option<bool> = select
        .bind(id)
        .bind(user.id)
        .fetch_optional(&shop.pool)
        .await?;
    if found.ok_or(ShopError::NoSuchOrder)? {
        return Err(ShopError::Paid);
    }
    // Such a number would also be the key of the bank, so that the bank charges the card once.
    println!("charging order {id}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    // From here the money may have moved. So after an error the key stays taken until its lease ends: a retry gets 409, and does
    // not charge the card again.
    if payment.card == "silent" {
        return Ok((StatusCode::GATEWAY_TIMEOUT, Extension(Decision::Hold)).into_response());
    }
    let update = sqlx::query("UPDATE orders SET paid = 1 WHERE id = ? AND user_id = ?");
    let updated = update.bind(id).bind(user.id).execute(&shop.pool).await;
    Ok(match updated {
        Ok(_) => (StatusCode::OK, "paid").into_response(),
        Err(error) => (Extension(Decision::Hold), ShopError::Database(error)).into_response(),
    })
}

#[derive(Debug, thiserror::Error)]
enum ShopError {
    #[error("the call was refused")]
    Refused(#[from] Error),
    /// `sql::retry` reads this source.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    #[error("an id is not a header")]
    Header(#[from] axum::http::header::InvalidHeaderValue),
    #[error("an order has a price")]
    NoPrice,
    #[error("there is no such order")]
    NoSuchOrder,
    #[error("the order is paid")]
    Paid,
}

impl IntoResponse for ShopError {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(error) => error.into_response(),
            // The layer frees the key after a 500 without a `Decision`, so a retry runs the handler again.
            Self::Database(_) | Self::Header(_) => {
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
            Self::NoPrice => {
                (StatusCode::UNPROCESSABLE_ENTITY, "an order has a price").into_response()
            }
            Self::NoSuchOrder => StatusCode::NOT_FOUND.into_response(),
            Self::Paid => (StatusCode::CONFLICT, "the order is paid").into_response(),
        }
    }
}

// The metrics: a program with a recorder of the crate `metrics` enables the feature `metrics` instead.

#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<BTreeMap<(String, &'static str), u64>>>);

impl Metrics {
    fn count(&self, event: &Event<'_>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let event = (event.endpoint().to_owned(), event.kind().as_str());
        *counts.entry(event).or_default() += 1;
    }

    /// The format of Prometheus.
    fn to_text(&self) -> String {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for ((endpoint, outcome), count) in &*counts {
            let _ = writeln!(
                text,
                "idempotence_events_total{{endpoint=\"{endpoint}\",outcome=\"{outcome}\"}} {count}"
            );
        }
        text
    }
}

async fn open(file: PathBuf) -> Result<SqlitePool, Box<dyn std::error::Error>> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(10));
    let pool = SqlitePool::connect_with(options).await?;
    sql::migrate(&pool).await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS orders (
             id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, item TEXT NOT NULL, cents INTEGER NOT NULL,
             paid INTEGER NOT NULL DEFAULT 0
         )",
    )
    .execute(&pool)
    .await?;
    Ok(pool)
}
