//! An upload endpoint: `POST /uploads` imports a file once. A repeated request gets the same answer.
//!
//! ```text
//! cargo run -p idempotence-examples --features axum --bin axum_upload
//! curl -i localhost:3000/uploads -H 'Authorization: Bearer ada' -H 'Idempotency-Key: "8e03978e"' \
//!     --json '{"file_md5": "9f86d081", "text": "a\nb"}'
//! ```
//!
//! | a second request with the same key | answer |
//! | --- | --- |
//! | while the first request runs | 409 with `Retry-After` |
//! | after its success | the same 200 with `Idempotency-Replayed: true` |
//! | after its failure | a new attempt |
//! | with another file | 422 |
#![allow(clippy::print_stdout)]

use std::time::Duration;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::routing::post;
use axum::{Json, Router};
use idempotence::integrations::axum::IdempotencyKey;
use idempotence::{Idempotency, Once, idempotent};
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
    // Uploads still run for clients that closed their connection.
    if let Err(error) = idempotency.drain(Duration::from_secs(30)).await {
        println!("{} uploads did not end in time", error.remaining());
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

/// The user of the bearer token.
struct User {
    id: u64,
}

impl FromRequestParts<App> for User {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, StatusCode> {
        let header = parts.headers.get(header::AUTHORIZATION);
        match header.and_then(|value| value.to_str().ok()) {
            Some("Bearer ada") => Ok(Self { id: 7 }),
            Some("Bearer bob") => Ok(Self { id: 8 }),
            _ => Err(StatusCode::UNAUTHORIZED),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Upload {
    file_md5: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Report {
    file_md5: String,
    rows: usize,
}

/// Clients choose the `Idempotency-Key`. So the key also names the user, and the payload is the whole request. A client that
/// closes its connection does not stop the import.
#[idempotent(
    name = "uploads.create",
    key = "user.id, idempotency_key",
    payload = "upload",
    ttl = "10m",
    replay = true,
    using = app.idempotency,
    on_cancel = "finish"
)]
#[tracing::instrument(skip_all)]
async fn upload(
    State(app): State<App>,
    user: User,
    idempotency_key: IdempotencyKey,
    Json(upload): Json<Upload>,
) -> axum::response::Result<Once<Json<Report>>> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    if upload.text.is_empty() {
        return Err((StatusCode::BAD_REQUEST, "the file is empty").into());
    }
    Ok(Once::from(Json(Report {
        rows: upload.text.lines().count(),
        file_md5: upload.file_md5,
    })))
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::request::Builder;
    use axum::http::{HeaderMap, Request};
    use axum::response::IntoResponse;
    use idempotence::{Error, MemoryStore};
    use tower::ServiceExt as _;

    use super::*;

    const REPLAYED: &str = "idempotency-replayed";

    struct Answer {
        status: StatusCode,
        headers: HeaderMap,
        body: String,
    }

    async fn send(app: &Router, request: Builder, text: &str) -> Answer {
        let body = format!(r#"{{"file_md5": "9f86", "text": {text:?}}}"#);
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body));
        let request = request.expect("a valid request");
        let response = app
            .clone()
            .oneshot(request)
            .await
            .expect("the router answers");
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 10_000)
            .await
            .expect("a body of less than 10,000 bytes");
        Answer {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).expect("a body of UTF-8"),
        }
    }

    fn by(user: &str) -> Builder {
        Request::post("/uploads").header(header::AUTHORIZATION, format!("Bearer {user}"))
    }

    fn keyed() -> Builder {
        by("ada").header("idempotency-key", "8e03978e")
    }

    async fn status(app: &Router, request: Builder, text: &str) -> StatusCode {
        send(app, request, text).await.status
    }

    fn router() -> Router {
        let idempotency = Idempotency::new(MemoryStore::new());
        app(App { idempotency })
    }

    #[tokio::test]
    async fn a_second_click_gets_a_409_while_the_first_runs() {
        let app = router();
        let (first, second) = tokio::join!(send(&app, keyed(), "a"), send(&app, keyed(), "a"));
        assert_eq!(first.status, StatusCode::OK);
        assert_eq!(second.status, StatusCode::CONFLICT);
        assert_eq!(
            second.headers[header::CONTENT_TYPE],
            "application/problem+json"
        );
        assert!(second.headers.contains_key(header::RETRY_AFTER));
        let body = &second.body;
        assert!(
            body.contains(r#""type":"urn:idempotence:in_progress""#),
            "{body}"
        );
        assert!(body.contains(r#""client_action":"wait""#), "{body}");
    }

    #[tokio::test]
    async fn a_repeated_request_gets_the_first_answer_with_a_replay_header() {
        let app = router();
        let first = send(&app, keyed(), "a\nb").await;
        assert_eq!(first.status, StatusCode::OK);
        assert_eq!(first.body, r#"{"file_md5":"9f86","rows":2}"#);
        assert!(!first.headers.contains_key(REPLAYED));

        let again = send(&app, keyed(), "a\nb").await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        assert_eq!(
            again.headers[header::CONTENT_TYPE],
            first.headers[header::CONTENT_TYPE]
        );
        assert_eq!(again.headers[REPLAYED], "true");
    }

    #[tokio::test]
    async fn a_key_with_another_file_is_refused_while_the_first_runs_and_after_it() {
        let app = router();
        let (_, running) = tokio::join!(send(&app, keyed(), "a"), send(&app, keyed(), "b"));
        let done = send(&app, keyed(), "b").await;
        for refused in [running, done] {
            assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
            assert!(!refused.headers.contains_key(header::RETRY_AFTER));
            let body = &refused.body;
            assert!(body.contains(r#""code":"payload_mismatch""#), "{body}");
        }
    }

    #[tokio::test]
    async fn two_users_may_send_the_same_key() {
        let app = router();
        let bob = by("bob").header("idempotency-key", "8e03978e");
        assert_eq!(status(&app, keyed(), "a").await, StatusCode::OK);
        assert_eq!(status(&app, bob, "a").await, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_request_without_a_key_gets_a_400_that_names_the_header() {
        let answer = send(&router(), by("ada"), "a").await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        let body = &answer.body;
        assert!(
            body.contains(r#""code":"idempotency_key_missing""#),
            "{body}"
        );
    }

    #[tokio::test]
    async fn a_failed_upload_may_be_repeated() {
        let app = router();
        assert_eq!(status(&app, keyed(), "").await, StatusCode::BAD_REQUEST);
        assert_eq!(status(&app, keyed(), "a").await, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_ends_after_its_client_closed_the_connection() {
        let idempotency = Idempotency::new(MemoryStore::new());
        let router = app(App {
            idempotency: idempotency.clone(),
        });
        let closed = tokio::time::timeout(Duration::from_millis(50), status(&router, keyed(), "a"));
        closed.await.expect_err("an upload takes longer than 50 ms");
        assert_eq!(idempotency.drain(Duration::from_secs(10)).await, Ok(()));
        let again = send(&router, keyed(), "a").await;
        assert_eq!(again.status, StatusCode::OK);
        assert_eq!(again.headers[REPLAYED], "true");
    }

    /// Handlers that replay their first response to duplicates.
    mod replayed {
        use idempotence::Once;

        use super::*;

        #[axum::debug_handler]
        #[idempotent(
            key = "upload.file_md5",
            payload = "upload.text",
            ttl = "1m",
            replay = true,
            name = "uploads.json"
        )]
        pub(super) async fn json(Json(upload): Json<Upload>) -> Result<Json<Report>, Error> {
            Ok(Json(Report {
                rows: upload.text.len(),
                file_md5: upload.file_md5,
            }))
        }

        #[axum::debug_handler]
        #[idempotent(
            key = "upload.file_md5",
            payload = (&upload.text),
            ttl = "1m",
            replay = true,
            on_cancel = "finish"
        )]
        pub(super) async fn once(
            Json(upload): Json<Upload>,
        ) -> axum::response::Result<Once<Json<Report>>> {
            let answer = json(Json(upload)).await?;
            Ok(answer.into())
        }
    }

    #[tokio::test]
    async fn a_json_body_is_replayed() {
        let app = Router::new()
            .route("/json", post(replayed::json))
            .route("/once", post(replayed::once));
        let idempotency = Idempotency::new(MemoryStore::new());
        for (path, header) in [("/once", true), ("/json", false)] {
            let send = async |text| {
                let request = Request::post(path);
                idempotency.scope(send(&app, request, text)).await
            };
            for again in [false, true] {
                let answer = send("abc").await;
                assert_eq!(answer.status, StatusCode::OK);
                assert_eq!(answer.body, r#"{"file_md5":"9f86","rows":3}"#);
                let is_replayed = answer.headers.contains_key("idempotency-replayed");
                assert_eq!(is_replayed, again && header, "{path}");
            }
            let other = send("abcd").await;
            assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY);
        }
    }

    /// Not called: the test is that these functions compile.
    mod shapes {
        use super::*;

        #[axum::debug_handler]
        #[idempotent(key = "upload.file_md5", ttl = "1m")]
        pub(super) async fn debugged_above(Json(upload): Json<Upload>) -> Result<String, Error> {
            Ok(upload.text)
        }

        #[idempotent(key = "upload.file_md5", ttl = "1m")]
        #[axum::debug_handler]
        pub(super) async fn debugged_below(Json(upload): Json<Upload>) -> Result<String, Error> {
            Ok(upload.text)
        }

        #[tracing::instrument(skip_all)]
        #[idempotent(key = "upload.file_md5", ttl = "1m")]
        pub(super) async fn opaque(Json(upload): Json<Upload>) -> Result<impl IntoResponse, Error> {
            Ok(upload.text)
        }
    }

    /// Not called: the test is that `axum` is the crate, and not a module of `idempotence`.
    mod glob {
        use axum::Router;
        use idempotence::*;

        pub(super) fn router(_: Idempotency) -> Router {
            Router::new()
        }
    }

    #[test]
    fn a_glob_import_leaves_the_name_axum_to_the_crate() {
        let _router = glob::router(Idempotency::new(MemoryStore::new()));
    }

    #[test]
    fn guarded_functions_are_handlers() {
        let _router: Router = Router::new()
            .route("/above", post(shapes::debugged_above))
            .route("/below", post(shapes::debugged_below))
            .route("/opaque", post(shapes::opaque));
    }
}
