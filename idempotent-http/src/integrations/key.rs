//! The request header `Idempotency-Key`.

use ::http::HeaderMap;
use idempotent_runtime::port::http::{
    Carrier, FromClient, HeaderFault, HeaderRejection, Id, IdFault, Mistake, rejected,
};
use serde::{Serialize, Serializer};

use crate::request::key::read_key;
use crate::request::key::text::KeySyntax;

/// The value of the header `Idempotency-Key`, without its quotes: 1 to 255 printable ASCII characters.
///
/// The extractor reads the syntax [`KeySyntax::Lenient`](crate::KeySyntax::Lenient): `Idempotency-Key: "abc"`, as in the
/// draft of the IETF, and the common `Idempotency-Key: abc` are the same key. A value without quotes must not contain a space,
/// a quote or a comma, because proxies join the values of a repeated header with commas.
///
/// The value is a key part. Clients choose it, so add the user to the key: `key = "user.id, idempotency_key"`.
///
/// An `Option<IdempotencyKey>` is `None` if the header is missing. As a key part it needs the option `when =
/// idempotency_key.is_some()`. Requests without the header then run unguarded. Without this option all of them would be equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(pub String);

const SYNTAX: KeySyntax = KeySyntax::Lenient;

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for IdempotencyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl FromClient for IdempotencyKey {}

impl IdempotencyKey {
    /// Reads the header. It must not be missing.
    pub(super) fn required(headers: &HeaderMap) -> Result<Self, HeaderRejection> {
        let key = Self::optional(headers)?;
        key.ok_or_else(|| rejection(HeaderFault::Missing, None, headers))
    }

    /// Reads the header. Returns `None` if it is missing.
    pub(super) fn optional(headers: &HeaderMap) -> Result<Option<Self>, HeaderRejection> {
        let key = read_key(headers, "idempotency-key", SYNTAX);
        let key = key.map_err(|fault| rejection(fault.fault(), fault.mistake(), headers))?;
        Ok(key.map(|key| Self(key.into_owned())))
    }
}

fn rejection(fault: HeaderFault, mistake: Option<Mistake>, headers: &HeaderMap) -> HeaderRejection {
    let fault = IdFault {
        id: Id::IdempotencyKey(SYNTAX.expected()),
        carrier: Carrier::Header("Idempotency-Key"),
        fault,
        mistake,
    };
    rejected(fault, headers)
}
