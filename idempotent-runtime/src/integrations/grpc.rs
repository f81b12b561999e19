//! The status of a refused call: the same from the attribute and from the layer.

use std::fmt::Write as _;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;

use super::problem::Problem;
use crate::Error;
use crate::error::wait::in_whole;
use crate::key::base64;

mod retry_info;

/// The metadata key of the code of an error.
pub const CODE: &str = "idempotence-code";
/// The metadata key of what the client should do.
pub const ACTION: &str = "idempotence-action";
/// The metadata key of whether a front end shows no message.
pub const SILENT: &str = "idempotence-silent";
/// The metadata key of the wait, in milliseconds.
pub const RETRY_AFTER_MS: &str = "retry-after-ms";

/// The header of the code of a status.
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The response of gRPC to a refused request: a status without messages.
pub fn response(problem: &Problem, error: Option<&Error>) -> Response<Bytes> {
    let code = code_of(problem, error);
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let grpc = HeaderValue::from_static("application/grpc");
    headers.insert(header::CONTENT_TYPE, grpc);
    headers.insert(STATUS, HeaderValue::from(u16::from(code)));
    put(headers, MESSAGE, &percent_encoded(&problem.detail));
    if let Some(details) = details(code, problem) {
        let mut digits = vec![0; 2 * details.len() + 2];
        let digits = base64::write(&details, &mut digits);
        put(headers, DETAILS, &String::from_utf8_lossy(digits));
    }
    for (name, value) in metadata(problem) {
        put(headers, HeaderName::from_static(name), &value);
    }
    response
}

/// The details of the status; `None` unless the client should wait.
pub fn details(code: u8, problem: &Problem) -> Option<Vec<u8>> {
    let wait = problem.retry_after?;
    Some(retry_info::details(code, &problem.detail, wait))
}

/// The metadata of the status.
pub fn metadata(problem: &Problem) -> impl Iterator<Item = (&'static str, String)> {
    let millis = |wait| in_whole(Duration::from_millis(1), wait).to_string();
    let facts = [
        (CODE, problem.code.to_owned()),
        (ACTION, problem.client_action.as_str().to_owned()),
        (SILENT, problem.silent.to_string()),
    ];
    let wait = problem
        .retry_after
        .map(|wait| (RETRY_AFTER_MS, millis(wait)));
    facts.into_iter().chain(wait)
}

/// The code of the status, a number of `doc/statuscodes.md` of gRPC.
fn code_of(problem: &Problem, error: Option<&Error>) -> u8 {
    if let Some(error) = error {
        return error.facts().grpc as u8;
    }
    match problem.status {
        StatusCode::BAD_REQUEST => 3,         // INVALID_ARGUMENT
        StatusCode::PAYLOAD_TOO_LARGE => 8,   // RESOURCE_EXHAUSTED
        StatusCode::PRECONDITION_FAILED => 9, // FAILED_PRECONDITION
        StatusCode::UNAUTHORIZED => 16,       // UNAUTHENTICATED
        _ => 13,                              // INTERNAL
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // All of these values are visible ASCII.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The text with `%` before each byte, in two hexadecimal digits, that is not printable ASCII, or is `%`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' => encoded.push_str("%25"),
            b' '..=b'~' => encoded.push(byte.into()),
            _ => {
                // A text can always be written to.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_have_any_text() {
        assert_eq!(percent_encoded("100 % sûr\n"), "100 %25 s%C3%BBr%0A");
        assert_eq!(percent_encoded("键"), "%E9%94%AE");
    }
}
