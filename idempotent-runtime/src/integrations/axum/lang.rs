//! The language of a request.

use std::convert::Infallible;

use ::axum::extract::FromRequestParts;
use ::axum::http::request::Parts;
use ::axum::http::{HeaderMap, header};

use crate::error::lang::Lang;

/// Reads the header `Accept-Language` with [`Lang::from_accept_language`]. Without the header the language is English.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use axum::response::Response;
/// use idempotence::{Error, Lang};
///
/// # async fn charge() -> Result<String, Error> { Ok(String::new()) }
/// async fn pay(lang: Lang) -> Result<String, Response> {
///     charge().await.map_err(|error| idempotence::integrations::axum::refusal(error, lang))
/// }
/// # axum::Router::<()>::new().route("/payments", axum::routing::post(pay));
/// ```
impl<S: Sync> FromRequestParts<S> for Lang {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(from_headers(&parts.headers))
    }
}

pub(super) fn from_headers(headers: &HeaderMap) -> Lang {
    let lines = headers.get_all(header::ACCEPT_LANGUAGE).iter();
    let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
    Lang::from_accept_language(&lines.join(","))
}

#[cfg(test)]
mod tests {
    use ::axum::http::HeaderValue;

    use super::*;

    #[test]
    fn all_lines_of_the_header_count() {
        let lang = |lines: &[&'static [u8]]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                let line = HeaderValue::from_bytes(line).unwrap();
                headers.append(header::ACCEPT_LANGUAGE, line);
            }
            from_headers(&headers)
        };
        assert_eq!(lang(&[]), Lang::En);
        assert_eq!(lang(&[b"zh-CN;Q=0.9"]), Lang::ZhHans);
        assert_eq!(lang(&[b"en;q=0.5", b"zh;q=0.8"]), Lang::ZhHans);
        assert_eq!(lang(&[b"\xff", b"zh"]), Lang::ZhHans);
    }
}
