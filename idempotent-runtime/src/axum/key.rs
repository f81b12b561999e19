//! The request header `Idempotency-Key`.

use std::error::Error as StdError;
use std::fmt;

use ::axum::extract::{FromRequestParts, OptionalFromRequestParts};
use ::axum::http::request::Parts;
use ::axum::http::{HeaderMap, StatusCode};
use ::axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};

use super::problem::Problem;
use crate::client::ClientAction;
use crate::request_id::is_id;

/// The value of the header `Idempotency-Key`, without its quotes: 1 to 255 printable ASCII characters.
///
/// `Idempotency-Key: "abc"`, as the IETF's draft writes it, and the common `Idempotency-Key: abc` are the same key.
/// Without quotes it holds no quote and no comma: a comma is how proxies join a header that was sent twice.
///
/// It is a key part. Clients choose it, so name the user beside it: `key = "user.id, idempotency_key"`. An
/// `Option<IdempotencyKey>` is `None` if the header is missing.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use axum::Router;
/// use axum::routing::post;
/// use idempotence::axum::IdempotencyKey;
///
/// async fn pay(IdempotencyKey(key): IdempotencyKey) -> String {
///     format!("you sent {key}")
/// }
///
/// let app: Router = Router::new().route("/payments", post(pay));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(pub String);

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for IdempotencyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = IdempotencyKeyRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        from_headers(&parts.headers)?.ok_or(IdempotencyKeyRejection::Missing)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = IdempotencyKeyRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        _state: &S,
    ) -> Result<Option<Self>, Self::Rejection> {
        from_headers(&parts.headers)
    }
}

/// Why a request has no [`IdempotencyKey`]: a 400, `application/problem+json` as for a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdempotencyKeyRejection {
    /// There is no such header.
    Missing,
    /// It was sent more than once.
    Repeated,
    /// It is not 1 to 255 printable ASCII characters, or its quotes are wrong.
    Malformed,
}

impl IdempotencyKeyRejection {
    /// A stable name for programs and clients, such as `idempotency_key_missing`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "idempotency_key_missing",
            Self::Repeated => "idempotency_key_repeated",
            Self::Malformed => "idempotency_key_malformed",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Missing => "Idempotency-Key is missing",
            Self::Repeated => "Idempotency-Key was sent more than once",
            Self::Malformed => "Idempotency-Key cannot be read",
        }
    }
}

impl IntoResponse for IdempotencyKeyRejection {
    fn into_response(self) -> Response {
        let problem = Problem {
            status: StatusCode::BAD_REQUEST,
            code: self.code(),
            title: self.title(),
            detail: "Send the header Idempotency-Key once, with 1 to 255 printable ASCII characters.",
            client_action: ClientAction::Fix,
            silent: false,
            retry_after: None,
        };
        problem.into_response()
    }
}

impl fmt::Display for IdempotencyKeyRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

impl StdError for IdempotencyKeyRejection {}

fn from_headers(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, IdempotencyKeyRejection> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(IdempotencyKeyRejection::Repeated);
    }
    match read(value.as_bytes()) {
        Some(key) => Ok(Some(IdempotencyKey(key))),
        None => Err(IdempotencyKeyRejection::Malformed),
    }
}

fn read(value: &[u8]) -> Option<String> {
    let value = value.trim_ascii();
    let key = match value.strip_prefix(b"\"") {
        Some(rest) => unescape(rest.strip_suffix(b"\"")?)?,
        None if value.iter().any(|byte| matches!(byte, b'"' | b',')) => return None,
        None => value.to_vec(),
    };
    is_id(&key).then(|| String::from_utf8(key).ok())?
}

/// What stands between the quotes of a string of a structured field, RFC 8941.
fn unescape(quoted: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter();
    while let Some(&byte) = bytes.next() {
        text.push(match byte {
            b'"' => return None,
            b'\\' => *bytes.next().filter(|byte| matches!(byte, b'"' | b'\\'))?,
            byte => byte,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use ::axum::body::to_bytes;
    use ::axum::http::{HeaderValue, Request, header};
    use serde_json::{Value, json};

    use super::*;
    use crate::cases::cases;
    use crate::fingerprint::Fingerprint;

    fn parts(values: &[&[u8]]) -> Parts {
        let mut parts = Request::new(()).into_parts().0;
        for value in values {
            let value = HeaderValue::from_bytes(value).unwrap();
            parts.headers.append("idempotency-key", value);
        }
        parts
    }

    async fn key(values: &[&[u8]]) -> Result<String, IdempotencyKeyRejection> {
        let key = <IdempotencyKey as FromRequestParts<()>>::from_request_parts;
        key(&mut parts(values), &()).await.map(|key| key.0)
    }

    #[tokio::test]
    async fn a_key_is_the_same_with_and_without_quotes() {
        assert_eq!(key(&[b"8e03978e-40d5"]).await.unwrap(), "8e03978e-40d5");
        assert_eq!(key(&[b"\"8e03978e-40d5\""]).await.unwrap(), "8e03978e-40d5");
        assert_eq!(key(&[b" a b "]).await.unwrap(), "a b");
        assert_eq!(key(&[br#""a, \"b\" \\""#]).await.unwrap(), r#"a, "b" \"#);
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_read_is_refused() {
        let values: [&[u8]; 14] = [
            b"",
            b" ",
            b"\"\"",
            b"\"",
            b"\"a",
            b"a\"",
            b"\"a\" \"b\"",
            b"\"a\", \"b\"",
            b"a, b",
            br#""a\""#,
            br#""a\b""#,
            b"a\tb",
            "schlüssel".as_bytes(),
            b"\"\xff\"",
        ];
        for value in values {
            let shown = value.escape_ascii();
            assert_eq!(
                key(&[value]).await,
                Err(IdempotencyKeyRejection::Malformed),
                "{shown}"
            );
        }
    }

    #[tokio::test]
    async fn a_key_has_255_characters_at_most() {
        let long = "a".repeat(255);
        let quoted = format!("\"{long}\"");
        assert_eq!(key(&[long.as_bytes()]).await.as_ref(), Ok(&long));
        assert_eq!(key(&[quoted.as_bytes()]).await.as_ref(), Ok(&long));
        let longer = long + "a";
        assert_eq!(
            key(&[longer.as_bytes()]).await,
            Err(IdempotencyKeyRejection::Malformed)
        );
    }

    #[tokio::test]
    async fn a_missing_and_a_repeated_key_are_told_apart() {
        assert_eq!(key(&[]).await, Err(IdempotencyKeyRejection::Missing));
        let twice = key(&[b"a", b"a"]).await;
        assert_eq!(twice, Err(IdempotencyKeyRejection::Repeated));
    }

    #[tokio::test]
    async fn an_optional_key_may_be_missing_and_not_malformed() {
        let optional = async |values: &[&[u8]]| {
            let key = <Option<IdempotencyKey> as FromRequestParts<()>>::from_request_parts;
            key(&mut parts(values), &()).await
        };
        assert_eq!(optional(&[]).await, Ok(None));
        let found = Some(IdempotencyKey("a".to_owned()));
        assert_eq!(optional(&[b"a"]).await, Ok(found));
        let empty = optional(&[b""]).await;
        assert_eq!(empty, Err(IdempotencyKeyRejection::Malformed));
    }

    #[test]
    fn any_header_is_read_or_refused() {
        let mut reads = 0;
        cases(300, |u| {
            let mut value = Vec::new();
            let strange = u.int_in_range(0..=9)?;
            for _ in 0..u.int_in_range(0..=40)? {
                value.push(match u.int_in_range(0..=9)?.max(9 - strange) {
                    0 => u.arbitrary()?,
                    1 => *u.choose(b"\"\"\\, \t\r\n\0\x7f\xff")?,
                    _ => u.int_in_range(b' '..=b'~')?,
                });
            }
            value = value.repeat(u.int_in_range(1..=10)?);
            if let Some(key) = super::read(&value) {
                reads += 1;
                assert!((1..=255).contains(&key.len()), "{key:?}");
                assert!(
                    key.bytes().all(|byte| matches!(byte, b' '..=b'~')),
                    "{key:?}"
                );
                let quoted = format!("\"{}\"", key.replace('\\', r"\\").replace('"', r#"\""#));
                assert_eq!(super::read(quoted.as_bytes()), Some(key), "{quoted}");
            }
            Ok(())
        });
        assert!(reads > 100, "{reads}");
    }

    #[test]
    fn as_a_key_part_it_is_its_text() {
        let key = IdempotencyKey("a".to_owned());
        assert_eq!(Fingerprint::of(&(7, key)), Fingerprint::of(&(7, "a")));
    }

    #[tokio::test]
    async fn a_request_without_a_key_is_told_what_to_send() {
        let response = IdempotencyKeyRejection::Missing.into_response();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let content_type = &response.headers()[header::CONTENT_TYPE];
        assert_eq!(content_type, "application/problem+json");
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({
            "type": "urn:idempotence:idempotency_key_missing",
            "title": "Idempotency-Key is missing",
            "status": 400,
            "detail": "Send the header Idempotency-Key once, with 1 to 255 printable ASCII characters.",
            "code": "idempotency_key_missing",
            "client_action": "fix",
            "silent": false,
        });
        assert_eq!(problem, expected);
    }
}
