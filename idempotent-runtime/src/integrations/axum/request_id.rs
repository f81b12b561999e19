//! A [`RequestId`] in a header, as an extractor of axum.

use ::axum::extract::{FromRequestParts, OptionalFromRequestParts};
use ::axum::http::request::Parts;

use crate::RequestId;
use crate::integrations::rejection::HeaderRejection;

/// Reads the header `X-Request-Id`. An `Option<RequestId>` is `None` if the header is missing. For a header with another name
/// use [`from_headers`](Self::from_headers).
///
/// The id deduplicates requests only if the client makes it, and no proxy replaces it: see
/// [Who makes it](Self#who-makes-it).
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use axum::Router;
/// use axum::routing::post;
/// use idempotence::RequestId;
///
/// async fn pay(request_id: RequestId) -> String {
///     format!("you sent {request_id}")
/// }
///
/// let app: Router = Router::new().route("/payments", post(pay));
/// ```
impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = HeaderRejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, HeaderRejection> {
        Self::required(&parts.headers)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for RequestId {
    type Rejection = HeaderRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        _state: &S,
    ) -> Result<Option<Self>, HeaderRejection> {
        Self::optional(&parts.headers)
    }
}

#[cfg(test)]
mod tests {
    use ::axum::http::{HeaderMap, HeaderValue, Request};

    use super::*;
    use crate::integrations::fault::HeaderFault;

    fn parts(values: &[&[u8]]) -> Parts {
        let mut parts = Request::new(()).into_parts().0;
        for value in values {
            let value = HeaderValue::from_bytes(value).unwrap();
            parts.headers.append("x-request-id", value);
        }
        parts
    }

    async fn id(values: &[&[u8]]) -> Result<String, HeaderFault> {
        let id = <RequestId as FromRequestParts<()>>::from_request_parts;
        let id = id(&mut parts(values), &()).await;
        id.map(|id| id.to_string()).map_err(HeaderRejection::fault)
    }

    #[tokio::test]
    async fn a_header_has_an_id_or_is_refused() {
        assert_eq!(id(&[b"0197c9f6"]).await.as_deref(), Ok("0197c9f6"));
        assert_eq!(id(&[b"a, b"]).await.as_deref(), Ok("a, b"));
        assert_eq!(id(&[]).await, Err(HeaderFault::Missing));
        assert_eq!(id(&[b"a", b"a"]).await, Err(HeaderFault::Repeated));
        let long = [b'a'; 256];
        for malformed in [&b""[..], b"a\tb", b"a ", b"\xff", "é".as_bytes(), &long] {
            let shown = malformed.escape_ascii();
            assert_eq!(
                id(&[malformed]).await,
                Err(HeaderFault::Malformed),
                "{shown}"
            );
        }
    }

    #[tokio::test]
    async fn an_optional_id_may_be_missing_but_not_malformed() {
        let optional = async |values: &[&[u8]]| {
            let id = <Option<RequestId> as FromRequestParts<()>>::from_request_parts;
            let id = id(&mut parts(values), &()).await;
            id.map_err(HeaderRejection::fault)
        };
        assert_eq!(optional(&[]).await, Ok(None));
        let found = RequestId::new("a").ok();
        assert_eq!(optional(&[b"a"]).await, Ok(found));
        assert_eq!(optional(&[b""]).await, Err(HeaderFault::Malformed));
    }

    #[test]
    fn a_malformed_id_is_rejected_with_its_mistake() {
        let text = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-request-id", HeaderValue::from_static(value));
            let read = RequestId::from_headers(&headers, "X-Request-Id");
            read.unwrap_err().to_string()
        };
        let begin = "X-Request-Id cannot be read: it";
        assert_eq!(text(""), format!("{begin} is empty"));
        assert_eq!(text("a "), format!("{begin} begins or ends with a space"));
        assert_eq!(
            text("a\tb"),
            format!("{begin} has a character that is not printable ASCII")
        );
        let long: &'static str = "a".repeat(256).leak();
        assert_eq!(text(long), format!("{begin} has more than 255 characters"));
    }

    #[test]
    fn the_header_may_have_another_name() {
        let mut headers = HeaderMap::new();
        headers.insert("paypal-request-id", HeaderValue::from_static("a"));
        let read = |name| RequestId::from_headers(&headers, name);
        assert_eq!(read("PayPal-Request-Id"), Ok(RequestId::new("a").ok()));
        assert_eq!(read("X-Request-Id"), Ok(None));
        headers.append("paypal-request-id", HeaderValue::from_static("b"));
        let twice = RequestId::from_headers(&headers, "PayPal-Request-Id").unwrap_err();
        assert_eq!(
            twice.to_string(),
            "PayPal-Request-Id was sent more than once"
        );
        assert_eq!(twice.code(), "request_id_repeated");
    }
}
