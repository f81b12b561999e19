//! The conventions that a service may follow: what they call the key, and which statuses they name.

use clap::ValueEnum;

/// A convention of idempotent requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Convention {
    /// The Internet-Draft draft-ietf-httpapi-idempotency-key-header-07, which has expired
    Ietf,
    /// Version 1 of the API of Stripe
    Stripe,
    /// The Agentic Commerce Protocol
    Acp,
    /// OASIS Repeatable Requests 1.0, as in Azure
    Repeatability,
}

impl Convention {
    /// As the argument of `--profile`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ietf => "ietf",
            Self::Stripe => "stripe",
            Self::Acp => "acp",
            Self::Repeatability => "repeatability",
        }
    }

    /// The header of the key.
    pub(crate) fn key_header(self) -> &'static str {
        match self {
            Self::Repeatability => "repeatability-request-id",
            _ => "idempotency-key",
        }
    }

    /// Whether the key is a string of RFC 9651, in quotes.
    pub(crate) fn is_quoted(self) -> bool {
        self == Self::Ietf
    }

    /// Whether a request has the date of its first try.
    pub(crate) fn has_first_sent(self) -> bool {
        self == Self::Repeatability
    }

    /// The status for a key that was used with another payload.
    pub(crate) fn mismatch(self) -> u16 {
        match self {
            Self::Ietf | Self::Acp => 422,
            Self::Stripe | Self::Repeatability => 400,
        }
    }

    /// The header that marks a replay.
    pub(crate) fn replay_mark(self) -> Option<&'static str> {
        match self {
            Self::Stripe | Self::Acp => Some("idempotent-replayed"),
            Self::Ietf | Self::Repeatability => None,
        }
    }
}
