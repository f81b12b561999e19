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
