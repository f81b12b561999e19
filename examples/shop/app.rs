//! The endpoints, and the page.

use std::collections::BTreeMap;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::mechanisms::{ROWS, Row, row};
use super::order::PRICE;
use super::scenarios::Scenario;
use super::server::Server;
use super::{Failure, NAME};

pub(crate) fn app(server: Server) -> Router {
    Router::new()
        .route("/", file(HTML, include_str!("page/index.html")))
        .route("/page.js", file(SCRIPT, include_str!("page/page.js")))
        .route("/words.js", file(SCRIPT, include_str!("page/words.js")))
        .route("/style.css", file(STYLE, include_str!("page/style.css")))
        .route("/icon.svg", file(ICON, include_str!("page/icon.svg")))
        .route("/api/shop", get(shop))
        .route("/api/state", get(state))
        .route("/api/events", get(events))
        .route("/api/run", post(run))
        .route("/api/run-all", post(run_all))
        .route("/api/pages", post(open_page))
        .route("/api/pages/{no}", get(page))
        .route("/api/pages/{no}/clicks", post(click))
        .layer(from_fn(protect))
        .with_state(server)
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";

fn file(kind: &'static str, text: &'static str) -> axum::routing::MethodRouter<Server> {
    get(async move || ([(header::CONTENT_TYPE, kind)], text))
}

/// The page loads nothing from elsewhere, and runs no script that is not in a file of this server.
async fn protect(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let rules: [(HeaderName, &str); 3] = [
        (header::CONTENT_SECURITY_POLICY, "default-src 'self'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in rules {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

/// What never changes: the rows with their code, and the columns.
async fn shop(State(server): State<Server>) -> impl IntoResponse {
    #[derive(Serialize)]
    struct Mechanism {
        id: &'static str,
        money: &'static str,
        code: &'static str,
        /// The scenarios that this mechanism does not have, and why.
        not_applicable: BTreeMap<String, &'static str>,
    }
    let mechanisms = ROWS.iter().map(|row| Mechanism {
        id: row.id,
        money: row.money,
        code: row.code,
        not_applicable: Scenario::ALL
            .iter()
            .filter_map(|scenario| Some((scenario.name(), scenario.not_applicable(row.id)?)))
            .collect(),
    });
    let mechanisms: Vec<_> = mechanisms.collect();
    Json(json!({
        "price": PRICE,
        "store": server.store_name(),
        "database": NAME,
        "scenarios": Scenario::ALL,
        "mechanisms": mechanisms,
    }))
}

async fn state(State(server): State<Server>) -> impl IntoResponse {
    Json(json!({ "reports": server.grid() }))
}

async fn events(State(server): State<Server>) -> impl IntoResponse {
    Sse::new(server.events().stream()).keep_alive(KeepAlive::default())
}

#[derive(Deserialize)]
struct RunRequest {
    mechanism: String,
    scenario: Scenario,
    clicks: Option<usize>,
}

async fn run(
    State(server): State<Server>,
    Json(request): Json<RunRequest>,
) -> Result<Response, Problem> {
    let row = known(&request.mechanism)?;
    if let Some(reason) = request.scenario.not_applicable(row.id) {
        return Err(Problem::NotApplicable(reason));
    }
    let report = server.play(row, request.scenario, storm(request.clicks));
    Ok(Json(report.await?).into_response())
}

#[derive(Deserialize)]
struct RunAllRequest {
    clicks: Option<usize>,
}

async fn run_all(
    State(server): State<Server>,
    Json(request): Json<RunAllRequest>,
) -> Result<Response, Problem> {
    let reports = server.play_all(storm(request.clicks)).await?;
    Ok(Json(json!({ "reports": reports })).into_response())
}

/// The clicks of a storm.
fn storm(clicks: Option<usize>) -> usize {
    clicks.unwrap_or(20).clamp(2, 200)
}

#[derive(Deserialize)]
struct PageRequest {
    mechanism: String,
}

async fn open_page(
    State(server): State<Server>,
    Json(request): Json<PageRequest>,
) -> Result<Response, Problem> {
    let page = server.open_page(known(&request.mechanism)?).await?;
    Ok((StatusCode::CREATED, Json(json!({ "page": page }))).into_response())
}

async fn page(State(server): State<Server>, Path(no): Path<u64>) -> Result<Response, Problem> {
    let report = server.page_report(no).await?.ok_or(Problem::Unknown)?;
    Ok(Json(report).into_response())
}

async fn click(State(server): State<Server>, Path(no): Path<u64>) -> Result<Response, Problem> {
    let attempt = server.click(no).await?.ok_or(Problem::Unknown)?;
    Ok(Json(attempt).into_response())
}

fn known(mechanism: &str) -> Result<&'static Row, Problem> {
    row(mechanism).ok_or(Problem::Unknown)
}

enum Problem {
    Unknown,
    NotApplicable(&'static str),
    Failed(Failure),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, problem) = match self {
            Self::Unknown => (StatusCode::NOT_FOUND, "unknown".to_owned()),
            Self::NotApplicable(why) => (StatusCode::UNPROCESSABLE_ENTITY, why.to_owned()),
            Self::Failed(failure) => (StatusCode::INTERNAL_SERVER_ERROR, failure.to_string()),
        };
        (status, Json(json!({ "problem": problem }))).into_response()
    }
}
