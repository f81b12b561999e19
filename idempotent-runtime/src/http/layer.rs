//! The layer: what users add to their router.

use std::fmt;
use std::sync::Arc;

use tower_layer::Layer;

use crate::http::config::Config;
use crate::http::service::IdempotencyService;

/// A layer of `tower` that answers a repeated request with its first response.
///
/// [`builder`](Self::builder) makes it. Clones are cheap, and are the same layer.
#[derive(Clone)]
pub struct IdempotencyLayer(Arc<Config>);

impl IdempotencyLayer {
    pub(super) fn new(config: Config) -> Self {
        Self(Arc::new(config))
    }

    /// The routes of [`for_route`](crate::http::LayerBuilder::for_route) that have had no guarded request, in no order. Before the first
    /// request of the layer there are none.
    ///
    /// A test that sends requests to all routes finds a misspelled route with it:
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # use idempotence::http::IdempotencyLayer;
    /// # use idempotence::{Idempotency, MemoryStore};
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let layer = IdempotencyLayer::builder(&idempotency)
    ///     .global_scope()
    ///     .for_route("/orders", |orders| orders.require_key())
    ///     .build();
    /// // … serve, with a clone of the layer, and send the requests …
    /// assert_eq!(layer.unmatched_routes(), [""; 0]);
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
