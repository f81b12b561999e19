//! The layer as a middleware of actix-web, refused calls as its responses, and extractors for `Idempotency-Key`, `X-Request-Id` and
//! the language.
//!
//! [`IdempotencyLayer`](crate::IdempotencyLayer) is a `Transform`: the same builder, options and records as for a server of
//! `tower`.
//!
//! ```
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
//! * A handler finds its [`IdempotencyContext`](idempotent_runtime::IdempotencyContext) by `web::ReqData`. It decides about its response by
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
//! `h1_allow_half_closed(false)`), the handler and its end continue by `actix_web::rt::spawn` on the same worker. They end with their worker: call [`drain`](idempotent_runtime::Idempotency::drain) **before** the
//! server stops, or their keys stay taken until the leases end. The page `http_frameworks` of the guide shows it. Outside of a runtime of
//! actix or a `LocalSet` (for example in `#[tokio::test]`) nothing can run the rest: the handler stops, the log has a warning, and the key stays taken until
//! the lease ends. Tokio prints the message of a panic, which is caught. With `panic = "abort"` the process ends instead.

use std::sync::Arc;

use actix_web::HttpResponse;
use idempotent_runtime::port::http::response_of;
use idempotent_runtime::{Error, Lang};

use crate::profile::Profile;
use crate::response::decision::Decision;

pub use self::extract::OptionalIdempotencyKey;
pub use crate::actix::{ActixContinueService, ActixFuture, ActixService, GuardedBody};
pub use crate::integrations::key::IdempotencyKey;
pub use idempotent_runtime::integrations::actix::refusal;
pub use idempotent_runtime::port::http::{HeaderFault, HeaderRejection};

mod extract;
mod replay;

/// [`refusal`] in the form of this convention, for routes without a layer: the status, the headers and the body.
pub fn refusal_as(error: Error, lang: Lang, profile: Profile) -> HttpResponse {
    let mut response = response_of(profile.table().refusal_of(&error, lang));
    let decision = Decision::after_error(&error);
    response.extensions_mut().insert(decision);
    response.extensions_mut().insert(Arc::new(error));
    response
}
