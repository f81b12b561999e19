//! What a handler and an outer layer learn about a guarded request.

use std::time::SystemTime;

use ::http::request;
#[cfg(feature = "actix")]
use actix_web::dev::Extensions;
use idempotent_runtime::IdempotencyContext;
use idempotent_runtime::port::http::{Call, Held, holds_claim, holds_claim_of};

#[cfg(feature = "actix")]
use crate::running::Running;

/// The claim of an outer layer, as an extension of a request that an inner layer runs without a claim.
#[derive(Clone)]
struct ClaimedOutside(IdempotencyContext);

/// Adds the context of a call to the request of its handler.
pub(super) fn add_context(head: &mut request::Parts, running: &Held) {
    // The key of a request names one intent: the layer has no `release = true`.
    let context: IdempotencyContext = running.context();
    let outer = head.extensions.insert(context);
    let outer = outer.filter(|outer| !running.is_claimed() && holds_claim(outer));
    if let Some(outer) = outer {
        head.extensions.insert(ClaimedOutside(outer));
    }
}

/// Whether an outer layer has claimed the key of `call` for this request. A second claim would refuse the request.
pub(super) fn is_claimed_outside(head: &request::Parts, call: &Call) -> bool {
    let next = head.extensions.get::<IdempotencyContext>();
    let next = next.filter(|next| holds_claim(next));
    let claimed = next.or_else(|| Some(&head.extensions.get::<ClaimedOutside>()?.0));
    claimed.is_some_and(|claimed| holds_claim_of(claimed, call))
}

/// Copies the calls of outer layers, and the mark of the outermost layer, from the extensions of actix to the head of a request.
#[cfg(feature = "actix")]
pub(super) fn read_context(local: &Extensions, head: &mut request::Parts) {
    if let Some(context) = local.get::<IdempotencyContext>() {
        head.extensions.insert(context.clone());
    }
    if let Some(outside) = local.get::<ClaimedOutside>() {
        head.extensions.insert(outside.clone());
    }
    if let Some(running) = local.get::<Running>() {
        head.extensions.insert(running.clone());
    }
}

/// Copies the call of a handler from the head of its request to the extensions of actix.
#[cfg(feature = "actix")]
pub(super) fn write_context(head: &request::Parts, local: &mut Extensions) {
    if let Some(context) = head.extensions.get::<IdempotencyContext>() {
        local.insert(context.clone());
    }
    if let Some(outside) = head.extensions.get::<ClaimedOutside>() {
        local.insert(outside.clone());
    }
}

/// How the layer answered a guarded request, as an extension of the response, for an outer layer.
///
/// A response to a request that the layer does not guard has no such extension. A refused call also has the extension
/// `Arc<Error>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdempotencyOutcome {
    /// The handler ran, and its response is stored. With [`OnLeaseLost::Continue`](idempotent_runtime::OnLeaseLost::Continue) a handler that lost its
    /// lease also ends like this if the key is free at its end. An equal request may have run in the meantime.
    Stored,
    /// The handler ran, but its response is a stream or too large. Only the fact that it ran is stored.
    Tombstone,
    /// The handler ran unguarded: the store was unavailable and `on_store_error` is `Run`, or the setting `disabled` is true.
    Unguarded,
    /// The handler ran, but the store did not confirm in time that its response is stored (event `unconfirmed`), or that the key is
    /// free; or another request has claimed the key after the lease, and may fail. The layer tries again in the background, and the event `unrecorded` reports if that fails, too. Or the store has no room for the
    /// response: the key stays taken for the `ttl`, and the layer stores a tombstone when there is room. With
    /// [`Settle::Background`](idempotent_runtime::Settle::Background) nearly every handler that ran ends like this.
    Unconfirmed,
    /// The handler ran, but its response is not stored, and the key was not freed: the key has the record of another request that has ended, or none, because
    /// the lease was lost or an operator has freed the key. An equal request may have run, too.
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

impl IdempotencyOutcome {
    /// The stable name, for a label of a metric: `stored`, `replayed`, `refused` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Tombstone => "tombstone",
            Self::Unguarded => "unguarded",
            Self::Unconfirmed => "unconfirmed",
            Self::Unrecorded => "unrecorded",
            Self::Released => "released",
            Self::Held => "held",
            Self::Replayed { .. } => "replayed",
            Self::Refused => "refused",
        }
    }
}
