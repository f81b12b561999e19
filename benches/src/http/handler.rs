//! The handler that each contender guards, and the body of its requests.

use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::response::{IntoResponse, Response};

/// The body of each request.
pub(super) const BODY: &str =
    r#"{"amount":1299,"currency":"EUR","customer":"9e107d9d372bb6826bd81d3542a419d6"}"#;

/// The handler. It ignores the body of the request, and returns a response with a body of 1 KiB.
pub(super) async fn payment() -> Response {
    static RECEIPT: LazyLock<String> = LazyLock::new(|| {
        let text: String = "Paid in full. ".chars().cycle().take(1024 - 11).collect();
        format!("{{\"text\":\"{text}\"}}")
    });

    let headers = [
        (CONTENT_TYPE, "application/json"),
        (LOCATION, "/payments/1"),
    ];
    (StatusCode::CREATED, headers, RECEIPT.as_str()).into_response()
}
