//! An upload endpoint: `POST /uploads` imports a file once, and answers 409 to its repetition.
//!
//! ```text
//! cargo run -p idempotence-examples --features axum --bin axum_upload
//! curl -i localhost:3000/uploads --json '{"user_id": 7, "file_md5": "9f86d081", "text": "a\nb"}'
//! ```
#![allow(clippy::print_stdout)]

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use idempotence::{Error, Idempotency, idempotent};
use serde::{Deserialize, Serialize};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".to_owned());
    let idempotency = Idempotency::from_url(&url).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(
        listener,
        app(App {
            idempotency: idempotency.clone(),
        }),
    )
    .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
    .await?;
    // Uploads whose clients went away are still running.
    if let Err(left) = idempotency.drain(Duration::from_secs(30)).await {
        println!("{left} uploads were cut off");
    }
    Ok(())
}

#[derive(Clone)]
struct App {
    idempotency: Idempotency,
}

fn app(app: App) -> Router {
    Router::new()
        .route("/uploads", post(upload))
        .with_state(app)
}

#[derive(Deserialize)]
struct Upload {
    user_id: u64,
    file_md5: String,
    text: String,
}

#[derive(Serialize)]
struct Report {
    rows: usize,
}

/// A client that closes the connection does not stop the import.
#[idempotent(
    name = "uploads.create",
    key = "upload.user_id, upload.file_md5",
    ttl = "10m",
    using = app.idempotency,
    on_cancel = "finish"
)]
#[tracing::instrument(skip_all)]
async fn upload(
    State(app): State<App>,
    Json(upload): Json<Upload>,
) -> Result<Json<Report>, Problem> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    if upload.text.is_empty() {
        return Err(Problem::Empty);
    }
    let rows = upload.text.lines().count();
    Ok(Json(Report { rows }))
}

enum Problem {
    Empty,
    Refused(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let error = match self {
            Self::Empty => return (StatusCode::BAD_REQUEST, "the file is empty").into_response(),
            Self::Refused(error) => error,
        };
        let status = match &error {
            error if error.is_duplicate() => StatusCode::CONFLICT,
            error if error.is_unavailable() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = (status, error.code()).into_response();
        if let Some(after) = error.retry_after() {
            let seconds = HeaderValue::from(after.as_secs().max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use idempotence::MemoryStore;
    use tower::ServiceExt as _;

    use super::*;

    async fn status(app: Router, text: &str) -> StatusCode {
        let body = format!(r#"{{"user_id": 7, "file_md5": "9f86", "text": {text:?}}}"#);
        let request = Request::post("/uploads")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body));
        app.oneshot(request.expect("a request"))
            .await
            .expect("an answer")
            .status()
    }

    fn router() -> Router {
        let idempotency = Idempotency::new(MemoryStore::new());
        app(App { idempotency })
    }

    #[tokio::test]
    async fn a_second_click_is_a_conflict_while_the_first_runs_and_after_it() {
        let app = router();
        let (first, second) = tokio::join!(status(app.clone(), "a"), status(app.clone(), "a"));
        assert_eq!((first, second), (StatusCode::OK, StatusCode::CONFLICT));
        assert_eq!(status(app, "a").await, StatusCode::CONFLICT);
    }

    #[tokio::test]
    async fn a_failed_upload_may_be_repeated() {
        let app = router();
        assert_eq!(status(app.clone(), "").await, StatusCode::BAD_REQUEST);
        assert_eq!(status(app, "a").await, StatusCode::OK);
    }

    #[tokio::test]
    async fn an_upload_whose_client_went_away_is_finished() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let router = app(App {
            idempotency: idempotency.clone(),
        });
        let gone = tokio::time::timeout(Duration::from_millis(50), status(router.clone(), "a"));
        gone.await.expect_err("it takes longer");
        assert_eq!(idempotency.drain(Duration::from_secs(10)).await, Ok(()));
        assert_eq!(status(router, "a").await, StatusCode::CONFLICT);
    }

    /// Not called: that these compile is the test.
    mod shapes {
        use super::*;

        #[axum::debug_handler]
        #[idempotent(key = "upload.user_id", ttl = "1m")]
        pub(super) async fn debugged_above(Json(upload): Json<Upload>) -> Result<String, Problem> {
            Ok(upload.text)
        }

        #[idempotent(key = "upload.user_id", ttl = "1m")]
        #[axum::debug_handler]
        pub(super) async fn debugged_below(Json(upload): Json<Upload>) -> Result<String, Problem> {
            Ok(upload.text)
        }

        #[tracing::instrument(skip_all)]
        #[idempotent(key = "upload.user_id", ttl = "1m")]
        pub(super) async fn opaque(
            Json(upload): Json<Upload>,
        ) -> Result<impl IntoResponse, Problem> {
            Ok(upload.text)
        }
    }

    #[test]
    fn guarded_functions_are_handlers() {
        let _router: Router = Router::new()
            .route("/above", post(shapes::debugged_above))
            .route("/below", post(shapes::debugged_below))
            .route("/opaque", post(shapes::opaque));
    }
}
