//! Refused calls as responses of axum, and extractors for `Idempotency-Key`, `X-Request-Id` and the language.
//!
//! [`Error`] is a response, so a guarded handler may return `Result<_, Error>` or `axum::response::Result<_>`.
//!
//! | error | status |
//! | --- | --- |
//! | `InProgress`, `AlreadyDone`, `Taken`, `OutcomeUnknown`, `ResultUnavailable`, `TokenUsed` | 409 |
//! | `TokenUnknown` | 410 |
//! | `TokenMalformed` | 400 |
//! | `PayloadMismatch` | 422 |
//! | `LimitReached` | 429 |
//! | `Unavailable` | 503 |
//! | the others | 500 |
//!
//! `LeaseLost` is a 500, because the body was stopped in the middle. A 503 would invite proxies and clients to send the request
//! again.
//!
//! The body is `application/problem+json` (RFC 9457):
//!
//! ```json
//! {
//!   "type": "urn:idempotence:in_progress",
//!   "title": "An equal request is being processed",
//!   "status": 409,
//!   "detail": "Your request is being processed. Please do not send it again.",
//!   "code": "in_progress",
//!   "retryable": true,
//!   "client_action": "wait",
//!   "silent": true,
//!   "retry_after_ms": 5000
//! }
//! ```
//!
//! `code` is [`Error::code`], `retryable` is true if the action is `wait`, `client_action` is [`Error::client_action`], `silent` is [`Error::is_silent`], and `detail` is
//! [`Error::text`]. `retry_after_ms` and the header `Retry-After` (in whole seconds, at least 1) are [`Error::retry_after`],
//! rounded up. They are present if the action is `wait`. The response does not name the endpoint, the key, the process that
//! holds it, or the error of the store. A layer that logs errors finds the whole error as an extension of the response,
//! `Arc<Error>`.

use std::sync::Arc;

use ::axum::body::Body;
use ::axum::response::Response;
use idempotent_runtime::{Error, Lang};

use crate::profile::Profile;

pub use crate::integrations::key::IdempotencyKey;
pub use idempotent_runtime::integrations::axum::refusal;
pub use idempotent_runtime::port::http::{HeaderFault, HeaderRejection};

mod key;
mod replay;

/// [`refusal`] in the form of this convention, for routes without a layer: the status, the headers and the body.
///
/// ```
/// use axum::response::Response;
/// use idempotence::http::Profile;
/// use idempotence::integrations::axum::refusal_as;
/// use idempotence::{Error, Lang};
///
/// // For clients with an SDK of Stripe: `{"error": {"type", "code", "message"}}`, and `Stripe-Should-Retry`.
/// fn refused(error: Error) -> Response {
///     refusal_as(error, Lang::En, Profile::Stripe)
/// }
/// # let _ = refused;
/// ```
pub fn refusal_as(error: Error, lang: Lang, profile: Profile) -> Response {
    let refusal = profile.table().refusal_of(&error, lang);
    let mut response = refusal.map(Body::from);
    response.extensions_mut().insert(Arc::new(error));
    response
}
