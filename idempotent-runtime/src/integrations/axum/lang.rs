//! The language of a request, as an extractor.

use std::convert::Infallible;

use ::axum::extract::FromRequestParts;
use ::axum::http::request::Parts;

use crate::Lang;
use crate::integrations::lang;

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
        Ok(lang::from_headers(&parts.headers))
    }
}
