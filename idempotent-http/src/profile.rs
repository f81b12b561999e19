//! The conventions of public APIs. Each convention is a table: nothing else in the layer depends on its name.

use self::table::Table;

pub(super) mod refusal;
pub(super) mod stamp;
pub(crate) mod table;
mod tables;

/// The convention of an API: the names of its headers, its codes and bodies, and which responses it stores.
///
/// A profile sets defaults, so each option of the [`LayerBuilder`](crate::LayerBuilder) replaces what the profile says, before
/// or after [`profile`](crate::LayerBuilder::profile). The page `http-profiles` of the guide has the table.
///
/// ```
/// use http::header::AUTHORIZATION;
/// use idempotence::http::{IdempotencyLayer, Profile};
/// use idempotence::{Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::new(MemoryStore::new());
/// let layer = IdempotencyLayer::builder(&idempotency)
///     .profile(Profile::Stripe)
///     .scope_by_header(AUTHORIZATION)
///     .build();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The Internet-Draft `draft-ietf-httpapi-idempotency-key-header-07`, with problems of RFC 9457.
    #[default]
    Ietf,
    /// The API of Stripe, version 1: another payload is 400 `idempotency_error`, and each 5xx is stored. All routes of the handle with
    /// this profile share their keys: a key of another route is 400, too.
    ///
    /// Read in November 2026, beside its client libraries: [idempotent requests](https://docs.stripe.com/api/idempotent_requests),
    /// [errors](https://docs.stripe.com/api/errors), [error codes](https://docs.stripe.com/error-codes),
    /// [error handling](https://docs.stripe.com/error-low-level), [connected accounts](https://docs.stripe.com/api/connected-accounts).
    /// Choices of this crate: the `code` of another payload, the `type` and `Retry-After` of a running request, which 4xx are stored,
    /// 409, 408. (Version 2 of the API runs failed requests again.)
    Stripe,
    /// The Agentic Commerce Protocol: each POST needs a key, which each response repeats, and no 5xx is stored.
    ///
    /// Read in November 2026: [`rfc.agentic_checkout.md`, section 6, and `rfc.delegate_payment.md`, section
    /// 5](https://github.com/agentic-commerce-protocol/agentic-commerce-protocol), version of June 2026. A choice of this crate: 408.
    Acp,
    /// OASIS Repeatable Requests 1.0, as Azure uses it: an id, the time of the first try, and a window.
    ///
    /// Read in November 2026:
    /// [OASIS Repeatable Requests 1.0](https://docs.oasis-open.org/odata/repeatable-requests/v1.0/repeatable-requests-v1.0.html),
    /// [guidelines of Azure](https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md#repeatability-of-requests),
    /// [Azure Communication Services](https://learn.microsoft.com/en-us/rest/api/communication/repeatable-requests). Choices of this
    /// crate: `Retry-After`, unknown outcomes, 503, 408. Not supported: `$RepeatableRequestsWithClientID`.
    ///
    /// A request that was first sent before the window gets 412. The window is the `ttl`, less a tolerance for clocks that differ: a tenth of the `ttl`,
    /// at most 5 minutes. So a record outlives its window, and a request does not run again after its record is gone, unless the `ttl` was made longer since then.
    Repeatability,
}

impl Profile {
    pub(crate) const fn table(self) -> &'static Table {
        match self {
            Self::Ietf => &tables::IETF,
            Self::Stripe => &tables::STRIPE,
            Self::Acp => &tables::ACP,
            Self::Repeatability => &tables::REPEATABILITY,
        }
    }
}
