//! What a handler and an outer layer learn about a guarded request.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use ::http::request;

use crate::call::Call;
use crate::error::Site;
use crate::protocol::held::Held;
use crate::protocol::shared::Shared;

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
#[derive(Clone)]
pub struct IdempotencyContext {
    site: Site,
    /// The latest claim of this request, by this layer or an outer layer.
    claim: Option<Claim>,
}

/// The claim of a request.
#[derive(Clone)]
struct Claim {
    shared: Arc<Shared>,
    site: Site,
}

impl IdempotencyContext {
    /// Adds the context of a call to the request of its handler.
    pub(super) fn add(head: &mut request::Parts, running: &Held) {
        let site = &running.lease.call().site;
        let claim = if running.is_claimed() {
            Some(Claim {
                shared: Arc::clone(running.shared()),
                site: site.clone(),
            })
        } else {
            let outer = head.extensions.get::<Self>();
            outer.and_then(|outer| outer.claim.clone())
        };
        let site = site.clone();
        head.extensions.insert(Self { site, claim });
    }

    /// Whether an outer layer has claimed the key of `call` for this request. A second claim would refuse the request.
    pub(super) fn is_claimed_outside(head: &request::Parts, call: &Call) -> bool {
        let outer = head.extensions.get::<Self>();
        let claim = outer.and_then(|outer| outer.claim.as_ref());
        claim.is_some_and(|claim| call.has_key_of(&claim.shared, &claim.site))
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

impl fmt::Debug for IdempotencyContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyContext")
            .field("site", &self.site)
            .finish_non_exhaustive()
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
    /// The handler ran unguarded: the store was unavailable and `on_store_error` is `Run`, or the setting `disabled` is true.
    Unguarded,
    /// The handler ran, but the store did not confirm in time that its response is stored, or that the key is free. The layer
    /// tries again in the background, and the event `unrecorded` reports if that fails, too.
    Unconfirmed,
    /// The handler ran, but its response is not stored, and the key was not freed: the key has another record or none, because
    /// the lease was lost or an operator has freed the key, or the store has no room. An equal request may have run, too.
    Unrecorded,
    /// The handler ran, and the key is free again.
    Released,
    /// The handler ran, and the key stays taken until the lease ends. Its outcome is not known.
    Held,
    /// The handler did not run. The response is a stored response.
    #[non_exhaustive]
    Replayed {
        /// When the stored response was made, by the clock of the process that made it.
        first: SystemTime,
    },
    /// The handler did not run, or was stopped. The response says why.
    Refused,
}
