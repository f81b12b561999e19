//! What a convention says.

use std::ops::RangeInclusive;
use std::time::Duration;

use ::http::{HeaderName, Method, StatusCode};

use crate::catalog::ProfileForm;
use crate::request::key::text::KeySyntax;
use crate::request::payload::Payload;

/// What a convention says.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent rule")]
pub(crate) struct Table {
    /// The header with the key.
    pub(crate) key: HeaderName,
    pub(crate) syntax: KeySyntax,
    pub(crate) requires_key: bool,
    /// The header with the id of a client. Its value is a part of the key.
    pub(crate) client: Option<HeaderName>,
    /// The header with the time of the first try. Each request with a key needs it.
    pub(crate) first_sent: Option<HeaderName>,
    /// The methods that are guarded.
    pub(crate) methods: &'static [Method],
    /// Whether a request with a key is refused if nothing guards it.
    pub(crate) refuses_unguarded: bool,
    /// Whether all routes share their keys. Then a key of another route is a key with another payload.
    pub(crate) shares_keys: bool,
    /// Whether the path of the request is a part of the key. Otherwise only the route is.
    pub(crate) path_in_key: bool,
    pub(crate) payload: fn() -> Payload,
    /// How long a response is stored.
    pub(crate) ttl: Duration,
    /// The statuses of responses that are stored.
    pub(crate) stored: &'static [RangeInclusive<u16>],
    /// The statuses after which the key stays taken until the lease ends. After every other status the key is free.
    pub(crate) held: &'static [u16],
    /// The header of a replay.
    pub(crate) marker: Option<HeaderName>,
    /// The header that says whether the request was accepted.
    pub(crate) result: Option<HeaderName>,
    /// Whether responses repeat the key of their request.
    pub(crate) echoes_key: bool,
    /// The header that says whether a client should send the request again: of a refusal, and of a stored failure or conflict.
    pub(crate) retry: Option<HeaderName>,
    pub(crate) body: BodyForm,
    /// The refusals that differ from the refusals of this crate.
    pub(crate) refusals: &'static [ProfileForm],
}

impl Table {
    /// How this convention names a refusal, if not as this crate.
    pub(crate) fn form(&self, code: &str) -> Option<&'static ProfileForm> {
        self.refusals.iter().find(|form| form.code == code)
    }

    /// Whether a response with this status is stored.
    pub(crate) fn stores(&self, status: StatusCode) -> bool {
        let mut stored = self.stored.iter();
        stored.any(|range| range.contains(&status.as_u16()))
    }

    /// Whether the key is held after a response with this status: the handler may have been stopped in the middle.
    pub(crate) fn holds(&self, status: StatusCode) -> bool {
        self.held.contains(&status.as_u16())
    }
}

/// The form of the body of a refusal. The texts are the groups of errors.
pub(crate) enum BodyForm {
    /// `application/problem+json`, RFC 9457.
    Problem,
    /// `{"error": {"code", "message"}}`, with the codes of this crate.
    Coded,
    /// `{"error": {"type", "code", "message", "doc_url"}}`.
    Nested {
        /// The group of 4xx.
        fault: &'static str,
        /// The group of 5xx.
        failure: &'static str,
    },
    /// `{"type", "code", "message"}`.
    Flat {
        /// The group of 4xx.
        fault: &'static str,
        /// The group of 5xx.
        failure: &'static str,
        /// The group of 503.
        unavailable: &'static str,
    },
}
