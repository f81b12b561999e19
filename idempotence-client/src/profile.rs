//! The conventions of servers.

use http::{HeaderName, Method};

/// The convention of the server: how a key is sent, and how a repeated answer is marked.
///
/// | profile | header of the key | a replay has | default methods |
/// | --- | --- | --- | --- |
/// | `Ietf` | `Idempotency-Key: "8e03978e-…"` | `Idempotency-Replayed: true` | `POST`, `PATCH` |
/// | `Stripe` | `Idempotency-Key: 8e03978e-…` | `Idempotent-Replayed: true` | `POST` |
/// | `Acp` | `Idempotency-Key: 8e03978e-…` | `Idempotent-Replayed: true` | `POST` |
/// | `Repeatability` | `Repeatability-Request-ID: 8e03978e-…`, with `Repeatability-First-Sent` | no mark | `POST`, `PUT`, `PATCH`, `DELETE` |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The IETF draft `idempotency-key-header-07`, which has expired without becoming an RFC. Its key is a text in quotes.
    #[default]
    Ietf,
    /// Version 1 of Stripe's API.
    Stripe,
    /// The Agentic Commerce Protocol.
    Acp,
    /// OASIS Repeatable Requests 1.0, as services of Azure use it.
    Repeatability,
}

/// The row of a profile.
#[derive(Debug, Clone)]
pub(crate) struct Convention {
    pub(crate) key: HeaderName,
    /// The header whose key is a String of RFC 9651.
    pub(crate) quoted: Option<HeaderName>,
    /// The header with the time of the first try.
    pub(crate) first_sent: Option<HeaderName>,
    /// The header of a replay.
    pub(crate) replay: Option<HeaderName>,
    /// A server stores no response with these statuses, so the header of a replay on it is another server's.
    pub(crate) never_stored: &'static [u16],
    pub(crate) methods: Vec<Method>,
}

impl Convention {
    /// Whether the key is a String of RFC 9651.
    pub(crate) fn is_quoted(&self) -> bool {
        self.quoted.as_ref() == Some(&self.key)
    }
}

/// Statuses of servers and proxies that ask for another try.
pub(crate) const LATER: [u16; 5] = [408, 429, 502, 503, 504];

impl Profile {
    pub(crate) fn convention(self) -> Convention {
        let stripe = Convention {
            key: HeaderName::from_static("idempotency-key"),
            quoted: None,
            first_sent: None,
            replay: Some(HeaderName::from_static("idempotent-replayed")),
            never_stored: &[],
            methods: vec![Method::POST],
        };
        match self {
            Self::Ietf => Convention {
                quoted: Some(stripe.key.clone()),
                replay: Some(HeaderName::from_static("idempotency-replayed")),
                never_stored: &LATER,
                methods: vec![Method::POST, Method::PATCH],
                ..stripe
            },
            Self::Stripe | Self::Acp => stripe,
            Self::Repeatability => Convention {
                key: HeaderName::from_static("repeatability-request-id"),
                quoted: None,
                first_sent: Some(HeaderName::from_static("repeatability-first-sent")),
                replay: None,
                never_stored: &[],
                methods: vec![Method::POST, Method::PUT, Method::PATCH, Method::DELETE],
            },
        }
    }
}
