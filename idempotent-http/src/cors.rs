//! The headers that a browser may send and read, for the layer for CORS.
//!
//! A script of another origin may send and read only the headers that the server allows (Fetch Standard, section "CORS protocol").
//! Without them the preflight of a request with a key fails, and the script does not see that a response is a replay.
//!
//! ```
//! use http::header::{AUTHORIZATION, CONTENT_TYPE};
//! use idempotence::http::{IdempotencyLayer, cors};
//! use idempotence::{Idempotency, MemoryStore};
//!
//! let idempotency = Idempotency::new(MemoryStore::new());
//! let layer = IdempotencyLayer::builder(&idempotency)
//!     .scope_by_header(AUTHORIZATION)
//!     .build();
//! // With tower-http: CorsLayer::new().allow_headers(allowed).expose_headers(cors::expose_headers(&layer))
//! let mut allowed = cors::allow_headers(&layer);
//! allowed.push(CONTENT_TYPE); // what the handlers read
//! assert_eq!(allowed[..2], ["idempotency-key", "authorization"]);
//! ```

use ::http::header::{self, HeaderName};

use crate::layer::IdempotencyLayer;

/// The headers of requests that the layer reads: the key, what the profile needs beside it, and the header of
/// [`scope_by_header`](crate::LayerBuilder::scope_by_header). For `Access-Control-Allow-Headers`.
///
/// Add the headers that your handlers read, such as `Content-Type` of JSON.
pub fn allow_headers(layer: &IdempotencyLayer) -> Vec<HeaderName> {
    let config = layer.config();
    let table = config.table;
    let beside = [
        table.first_sent.as_ref(),
        table.client.as_ref(),
        config.scope.header_name(),
    ];
    let read = config
        .key
        .header_names()
        .chain(beside.into_iter().flatten());
    read.cloned().collect()
}

/// The headers of responses that the layer writes: the mark of a replay, `Retry-After` and `Location` of refusals, and what the profile adds. For
/// `Access-Control-Expose-Headers`.
///
/// Add the headers of your handlers that scripts read, such as `ETag`.
pub fn expose_headers(layer: &IdempotencyLayer) -> Vec<HeaderName> {
    let config = layer.config();
    let table = config.table;
    let echoed = config.key.header_names().filter(|_| table.echoes_key);
    let link = config.docs.as_ref().map(|_| &header::LINK);
    let written = [
        config.marker.as_ref(),
        Some(&header::RETRY_AFTER),
        Some(&header::LOCATION),
        link,
        table.result.as_ref(),
        table.retry.as_ref(),
    ];
    written
        .into_iter()
        .flatten()
        .chain(echoed)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use idempotent_runtime::{Idempotency, MemoryStore};

    use super::*;
    use crate::Profile;

    #[test]
    fn the_headers_of_each_profile_are_allowed_and_exposed() {
        for (profile, allowed, exposed) in [
            (
                Profile::Ietf,
                vec!["idempotency-key"],
                vec!["idempotency-replayed", "retry-after", "location"],
            ),
            (
                Profile::Stripe,
                vec!["idempotency-key", "stripe-account"],
                vec![
                    "idempotent-replayed",
                    "retry-after",
                    "location",
                    "stripe-should-retry",
                    "idempotency-key",
                ],
            ),
            (
                Profile::Acp,
                vec!["idempotency-key"],
                vec![
                    "idempotent-replayed",
                    "retry-after",
                    "location",
                    "idempotency-key",
                ],
            ),
            (
                Profile::Repeatability,
                vec![
                    "repeatability-request-id",
                    "repeatability-first-sent",
                    "repeatability-client-id",
                ],
                vec!["retry-after", "location", "repeatability-result"],
            ),
        ] {
            let idempotency = Idempotency::new(MemoryStore::new());
            let layer = IdempotencyLayer::builder(&idempotency).profile(profile);
            let layer = layer.global_scope().build();
            assert_eq!(allow_headers(&layer), allowed);
            assert_eq!(expose_headers(&layer), exposed);
        }
    }
}
