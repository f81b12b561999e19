//! A layer of `tower` that answers a repeated request with its first response, for every server of HTTP that uses `tower`. With
//! the feature `actix` it is a middleware of actix-web, too.
//!
//! A client sends an unsafe request with the header `Idempotency-Key`, and repeats it with the same key if it gets no answer. The
//! handler runs once. Each repetition gets the first response: status, headers, body and trailers. The header is the header of the
//! Internet-Draft `draft-ietf-httpapi-idempotency-key-header-07`, which has expired without becoming an RFC.
//!
//! ```
//! use axum::Router;
//! use axum::routing::post;
//! use http::header::AUTHORIZATION;
//! use idempotence::http::IdempotencyLayer;
//! use idempotence::{Idempotency, MemoryStore};
//!
//! let idempotency = Idempotency::new(MemoryStore::new());
//! let guard = IdempotencyLayer::builder(&idempotency)
//!     .scope_by_header(AUTHORIZATION)
//!     .build();
//! let app: Router = Router::new()
//!     .route("/orders", post(async || "placed"))
//!     .route_layer(guard);
//! ```
//!
//! # Order of the checks
//!
//! 1. The method: only POST and PATCH are guarded, unless [`methods`](LayerBuilder::methods) names others.
//! 2. The key: 400 if it cannot be read, or is missing on a route that [requires](LayerBuilder::require_key) it. A request without
//!    a key passes to the handler otherwise.
//! 3. The route, which is the name of the endpoint: 500 if it is not known.
//! 4. The scope: whose key it is. 400 if it is missing, or 401 with a [`challenge`](LayerBuilder::challenge).
//! 5. The body is read into memory: 413 if it is too large. A half-sent upload takes no key.
//! 6. The key is claimed (1 round trip). If an equal request has the key: 422 if its payload differs, else the stored response,
//!    or 409 `in_progress` while the equal request runs, or 409 `outcome_unknown` while its key is held. 503 if the store is
//!    unavailable.
//!
//! Refusals are `application/problem+json` (RFC 9457) in the language of the request, with the same members as in
//! `integrations::axum`; for a client that prefers `text/html` a small page.
//!
//! # What is stored
//!
//! [`Decision`] says which responses are stored. The record is written before the first byte of the response leaves (1 round
//! trip). A response that is a stream, or too large, leaves a tombstone: repetitions get 409 `result_unavailable`, with the
//! `Location` of the first response, and the handler does not run again.
//!
//! A replay has the header `Idempotency-Replayed: true`. It has no headers that are for the first connection, client or moment,
//! such as `Connection`, `Set-Cookie`, `Date`, `Retry-After`, `Access-Control-*`, `RateLimit*` and `X-Request-Id`.
//!
//! [`Profile`] has other conventions: Stripe, the Agentic Commerce Protocol, and OASIS Repeatable Requests.
//! [`grpc_unary`](LayerBuilder::grpc_unary) guards unary methods of gRPC. [`cors`] has the headers for CORS.
//!
//! # Where the layer belongs
//!
//! Outermost first: timeouts, [`ContinueLayer`], traces, request ids, panics, CORS, compression, authentication, rate limits, this
//! layer, the handler. Layers outside of it also run for replays.
//!
//! The endpoint of a request is its method and its route. With the features `axum` and `actix` the route is what the router has
//! matched, also in nested routers. Without them name the route with [`route`](LayerBuilder::route).
//!
//! # Cancellation
//!
//! If the client hangs up while the handler runs, the handler and its end continue in their own task, and
//! [`Idempotency::drain`](idempotent_runtime::Idempotency::drain) waits for them. [`ContinueLayer`] keeps the task-locals of outer
//! middlewares there. After a panic of the handler the key stays taken until its
//! lease ends: repetitions get 409 `outcome_unknown`.

#[cfg(feature = "actix")]
mod actix;
mod body;
mod catalog;
mod context;
mod continue_layer;
pub mod cors;
#[cfg(feature = "utoipa")]
mod describe;
#[doc(hidden)]
pub mod integrations;
mod layer;
mod page;
mod peek;
mod profile;
mod rejection;
mod request;
mod response;
mod running;

pub use self::body::ReplayBody;
pub use self::context::IdempotencyOutcome;
pub use self::continue_layer::{ContinueFuture, ContinueLayer, ContinueService};
pub use self::layer::IdempotencyLayer;
pub use self::layer::builder::{HasScope, LayerBuilder, NoScope};
pub use self::layer::future::ResponseFuture;
pub use self::layer::options::RouteOptions;
pub use self::layer::service::IdempotencyService;
pub use self::profile::Profile;
pub use self::rejection::Rejection;
pub use self::request::key::source::KeySource;
pub use self::request::key::text::KeySyntax;
pub use self::request::payload::Payload;
pub use self::request::scope::Scope;
pub use self::response::decision::Decision;
pub use idempotent_runtime::IdempotencyContext;

#[cfg(test)]
use idempotence_test_cases as cases;
