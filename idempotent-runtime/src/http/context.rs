//! What a handler and an outer layer learn about a guarded request.

use std::time::SystemTime;

use crate::error::Site;

/// The guarded request, as an extension of the request. A request without a key has no such extension.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::http::IdempotencyContext;
///
/// fn log<B>(request: &http::Request<B>) {
///     if let Some(context) = request.extensions().get::<IdempotencyContext>() {
///         println!("{} {}", context.endpoint(), context.key());
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct IdempotencyContext {
    site: Site,
}

impl IdempotencyContext {
    pub(super) fn new(site: &Site) -> Self {
        let site = site.clone();
        Self { site }
    }

    /// The endpoint, as the events name it: `POST /orders/{id}/pay`.
    pub fn endpoint(&self) -> &str {
        self.site.endpoint.as_str()
    }

    /// The digest of the key, in hexadecimal digits, as the store and the events name it. It does not show the key.
    pub fn key(&self) -> String {
        let digest = self.site.fingerprint.as_ref();
        digest.map(ToString::to_string).unwrap_or_default()
    }
}

/// How the layer answered a guarded request, as an extension of the response, for an outer layer.
///
/// A response to a request that the layer does not guard has no such extension. A refused call also has the extension
/// `Arc<Error>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdempotencyOutcome {
    /// The handler ran, and its response is stored.
    Stored,
    /// The handler ran, but its response is a stream or too large. Only the fact that it ran is stored.
    Tombstone,
    /// The handler ran, and the key is free again.
    Released,
    /// The handler ran, and the key stays taken until the lease ends.
    Held,
    /// The handler did not run. The response is a stored response.
    Replayed {
        /// When the stored response was made, by the clock of the process that made it.
        first: SystemTime,
    },
    /// The handler did not run, or was stopped. The response says why.
    Refused,
}
