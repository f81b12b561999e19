//! The layer as a middleware of actix-web, refused calls as its responses, and extractors for `Idempotency-Key`, `X-Request-Id` and
//! the language.
//!
//! [`IdempotencyLayer`](crate::http::IdempotencyLayer) is a `Transform`: the same builder, options and records as for a server of
//! `tower`.
//!
//! ```
//! # use idempotent_runtime as idempotence;
//! use actix_web::{App, HttpServer, web};
//! use http::header::AUTHORIZATION;
//! use idempotence::http::IdempotencyLayer;
//! use idempotence::{Idempotency, MemoryStore};
//!
//! async fn place(order: String) -> String {
//!     format!("placed {order}")
//! }
//!
//! let idempotency = Idempotency::new(MemoryStore::new());
//! // Outside of the closure: all workers share one layer.
//! let guard = IdempotencyLayer::builder(&idempotency)
//!     .scope_by_header(AUTHORIZATION)
//!     .require_key()
//!     .build();
//! let server = HttpServer::new(move || {
//!     App::new().service(web::resource("/orders").wrap(guard.clone()).post(place))
//! });
//! # drop(server);
//! ```
//!
//! # What differs from a server of `tower`
//!
//! * The route is the pattern of the resource, with its scopes: `/shop/orders/{id}`. If a resource has several patterns, it is the first.
//!   `App::wrap` and `Scope::wrap` also see requests that no resource matches. With a key they get 500 `route_unknown`. Before they have
//!   chosen a resource they know only its pattern, so two resources with one pattern and different guards have the options of one route.
//!   So wrap resources.
//! * `scope_by_extension` reads the extensions of the request in actix (`request.extensions_mut().insert(user)`). The type must be
//!   `Send` and `Sync`. `scope_by` gets a head of the crate `http` 1, which has the method, the URI and the headers, and none of
//!   these extensions.
//! * A handler finds its [`IdempotencyContext`](crate::IdempotencyContext) by `web::ReqData`. It decides about its response by
//!   `response.extensions_mut().insert(Decision::Hold)`. It reads its body by any extractor: the layer puts the body back.
//! * A compressed request is compared as it was sent, because extractors decompress it inside of the layer.
//! * A replay may have its headers in another order than the first response, because actix keeps no order of different names.
//! * A panic of a handler closes the connection, because actix answers no panic.
//! * If the lease is lost while the handler runs, the handler is stopped, and its request with it. Then middlewares outside get an
//!   `Err`; its response is the usual refusal.
//! * An `Err` of a middleware between the layer and the handler is its response, as always in actix: the status of `error_response` decides
//!   about the key. Middlewares outside get an `Err` with this response and the text of the error, but not its type. With a 500, or
//!   with a stream as its body, the key is held, because the middleware may have stopped the handler or failed after it. So for a failure
//!   before the handler let it answer with 503, or add `Decision::Release`.
//! * A handler that blocks its thread also blocks the renewals of all leases of its worker.
//!
//! # Cancellation
//!
//! If a client closes its connection by a FIN, actix lets the handler run in its request, because it cannot distinguish this from a
//! client that closes only its sending side. If actix drops a guarded request (after an RST, or after a FIN with
//! `h1_allow_half_closed(false)`), the handler and its end continue by `actix_web::rt::spawn` on the same worker. They end with their worker: call [`drain`](crate::Idempotency::drain) **before** the
//! server stops, or their keys stay taken until the leases end. The page `http_frameworks` of the guide shows it. Outside of a runtime of
//! actix or a `LocalSet` (for example in `#[tokio::test]`) nothing can run the rest: the handler stops, the log has a warning, and the key stays taken until
//! the lease ends. Tokio prints the message of a panic, which is caught. With `panic = "abort"` the process ends instead.

use std::sync::Arc;

use ::http::Response;
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, Responder, ResponseError};
use bytes::Bytes;

use crate::http::Decision;
use crate::http::problem::Problem;
use crate::http::profile::Profile;
use crate::{Error, Lang, Once};

pub use self::extract::OptionalIdempotencyKey;
pub use crate::http::actix::{ActixContinueService, ActixFuture, ActixService, GuardedBody};
pub use crate::http::key::fault::HeaderFault;
pub use crate::integrations::key::IdempotencyKey;
pub use crate::integrations::rejection::HeaderRejection;

mod extract;
mod replay;

/// The response to a refused call in this language. The extractor [`Lang`] reads the language that the request asks for.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use actix_web::HttpResponse;
/// use idempotence::{Error, Lang};
///
/// # async fn charge() -> Result<String, Error> { Ok(String::new()) }
/// async fn pay(lang: Lang) -> HttpResponse {
///     match charge().await {
///         Ok(receipt) => HttpResponse::Ok().body(receipt),
///         Err(error) => idempotence::integrations::actix::refusal(error, lang),
///     }
/// }
/// # actix_web::web::post().to(pay);
/// ```
///
/// Inside of an [`IdempotencyLayer`](crate::http::IdempotencyLayer) the response takes the form of the layer's profile. Outside
/// of a layer [`refusal_as`] has the form of a profile.
pub fn refusal(error: Error, lang: Lang) -> HttpResponse {
    let mut response = refused(&error, lang);
    response.extensions_mut().insert(Arc::new(error));
    response
}

/// [`refusal`] in the form of this convention, for routes without a layer: the status, the headers and the body.
pub fn refusal_as(error: Error, lang: Lang, profile: Profile) -> HttpResponse {
    let mut response = response_of(profile.table().refusal_of(&error, lang));
    let decision = Decision::after_error(&error);
    response.extensions_mut().insert(decision);
    response.extensions_mut().insert(Arc::new(error));
    response
}

/// [`refusal`] in English. The bodies and statuses are the same as with axum.
impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        refused(self, Lang::En).status()
    }

    fn error_response(&self) -> HttpResponse {
        refused(self, Lang::En)
    }
}

/// The rejection as a response, in the language of the request.
impl ResponseError for HeaderRejection {
    fn status_code(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }

    fn error_response(&self) -> HttpResponse {
        response_of(self.response())
    }
}

/// The response of the value. A replayed response also has the header `idempotency-replayed: true`.
impl<T: Responder> Responder for Once<T> {
    type Body = T::Body;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse<T::Body> {
        let replayed = self.is_replayed();
        let mut response = self.into_inner().respond_to(request);
        if replayed {
            let name = actix_web::http::header::HeaderName::from_static("idempotency-replayed");
            let value = actix_web::http::header::HeaderValue::from_static("true");
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// The response to a refused call. It tells a layer around the handler what to do with the key.
fn refused(error: &Error, lang: Lang) -> HttpResponse {
    let problem = Problem::of(error, lang);
    let mut response = response_of(problem.response());
    response.extensions_mut().insert(problem);
    let decision = Decision::after_error(error);
    response.extensions_mut().insert(decision);
    response
}

/// A response in the types of actix.
fn response_of(response: Response<Bytes>) -> HttpResponse {
    let (mut head, body) = response.into_parts();
    let problem = head.extensions.remove::<Problem>();
    let status = StatusCode::from_u16(head.status.as_u16());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponseBuilder::new(status).body(body);
    *response.headers_mut() = crate::http::actix::old_headers(&head.headers);
    if let Some(problem) = problem {
        response.extensions_mut().insert(problem);
    }
    response
}
