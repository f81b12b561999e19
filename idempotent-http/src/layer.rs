//! The layer: what users add to their router.

pub(crate) mod answer;
pub(crate) mod builder;
pub(crate) mod config;
pub(crate) mod configured;
pub(crate) mod first_sent;
pub(crate) mod future;
pub(crate) mod grpc;
pub(crate) mod guard;
pub(crate) mod options;
pub(crate) mod reform;
pub(crate) mod service;

use std::fmt;
use std::sync::Arc;

use tower_layer::Layer;

use crate::layer::config::Config;
use crate::layer::service::IdempotencyService;

/// A layer of `tower` that answers a repeated request with its first response. With the feature `actix` it is also a `Transform` of
/// actix-web: see `integrations::actix`.
///
/// [`builder`](Self::builder) makes it. Clones are cheap, and are the same layer.
#[derive(Clone)]
pub struct IdempotencyLayer(Arc<Config>);

impl IdempotencyLayer {
    pub(super) fn new(config: Config) -> Self {
        Self(Arc::new(config))
    }

    pub(super) fn config(&self) -> &Arc<Config> {
        &self.0
    }

    /// The routes of [`for_route`](crate::LayerBuilder::for_route) that have had no guarded request, in no order. Before the first
    /// request of the layer there are none.
    ///
    /// A test that sends requests to all routes finds a misspelled route with it:
    ///
    /// ```
    /// # #[cfg(feature = "axum")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::http::Request;
    /// use axum::routing::post;
    /// use idempotence::http::IdempotencyLayer;
    /// use idempotence::{Idempotency, MemoryStore};
    /// use tower::ServiceExt as _;
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let layer = IdempotencyLayer::builder(&idempotency)
    ///     .global_scope()
    ///     .for_route("/orders", |orders| orders.require_key())
    ///     .for_route("/order/{id}/pay", |pay| pay.require_key())
    ///     .build();
    /// let app: Router = Router::new()
    ///     .route("/orders", post(async || "placed"))
    ///     .route("/orders/{id}/pay", post(async || "paid"))
    ///     .route_layer(layer.clone());
    ///
    /// for path in ["/orders", "/orders/7/pay"] {
    ///     let request = Request::post(path).header("idempotency-key", "8e03978e");
    ///     let answer = app.clone().oneshot(request.body(Body::empty()).unwrap()).await;
    ///     assert!(answer.unwrap().status().is_success());
    /// }
    /// // The layer has it without the `s`, so payments need no key.
    /// assert_eq!(layer.unmatched_routes(), ["/order/{id}/pay"]);
    /// # }
    /// # #[cfg(not(feature = "axum"))]
    /// # fn main() {}
    /// ```
    pub fn unmatched_routes(&self) -> Vec<String> {
        let unmatched = self.0.seen_routes.unmatched().into_iter();
        unmatched.map(|unmatched| unmatched.route).collect()
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService::new(inner, Arc::clone(&self.0))
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer").finish_non_exhaustive()
    }
}
