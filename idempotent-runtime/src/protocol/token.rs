//! One-time tokens: their text, their binding, and their keys in the store.

mod guard;
pub(crate) mod of_call;
mod owned;
pub(crate) mod redemption;

use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::{Error, Failure, Site, Subject};
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, Hasher, UnencodablePart};
use crate::key::kind::RecordKind;
use crate::protocol::shared::Shared;
use crate::world;

/// A one-time token: 256 random bits as 64 lower-case hexadecimal digits. Show a token only to its subject. `Debug` hides it.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotence::Error> {
/// # use std::time::Duration;
/// # use idempotence::{Idempotency, MemoryStore};
/// # let tokens = Idempotency::new(MemoryStore::new()).tokens();
/// let token = tokens.issue(&42, "orders.submit", Duration::from_mins(30)).await?;
/// let form = format!(r#"<input type="hidden" name="token" value="{token}">"#);
/// assert!(form.contains(token.as_str()));
/// assert_eq!(format!("{token:?}"), "Token(…)");
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The text for the client.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn random() -> Self {
        let (high, low) = (world::random_bits(), world::random_bits());
        Self(format!("{high:032x}{low:032x}"))
    }

    /// Whether `text` has the form of a token. Other texts are never sent to the store.
    pub(crate) fn is_well_formed(text: &str) -> bool {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.len() == 64 && text.bytes().all(digit)
    }
}

impl AsRef<str> for Token {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The digest of the operation and the subject of a token, and of the token itself if it is given.
///
/// The digest [ends the key](key_with) of a call with a token. A call with the option `key` uses the digest without the token,
/// so calls of one subject for one operation are equal, whatever their tokens. A call without a key uses the digest with the
/// token.
///
/// # Errors
///
/// If the subject cannot be encoded. The caller must emit the event.
pub(crate) fn binding(
    shared: &Shared,
    operation: &Endpoint,
    token: Option<&str>,
    subject: impl FnOnce(&mut Hasher) -> Result<(), UnencodablePart>,
) -> Result<Fingerprint, Error> {
    let mut hasher = shared.token_keying().hasher();
    let encoded = token
        .map_or(Ok(()), |token| hasher.part(token))
        .and_then(|()| hasher.part(operation.as_str()))
        .and_then(|()| subject(&mut hasher));
    if encoded.is_err() {
        let what = "the subject of a token could not be serialized";
        let site = Site::of(Subject::Token, operation.clone());
        return Err(Error::InvalidKey(Failure::new(site, what, None)));
    }
    Ok(hasher.finish())
}

/// The key of a call with a token: its own parts, and the [`binding`] of its token.
pub(crate) fn key_with(parts: &mut Hasher, bound: &Fingerprint) -> Fingerprint {
    // A string can always be encoded.
    let _ = parts.part(&bound.to_string());
    parts.end()
}

/// The site and the key of a token. The key contains only the digest of the token and of its binding.
pub(crate) fn locate(
    shared: &Shared,
    operation: Endpoint,
    fingerprint: Fingerprint,
) -> (Site, String) {
    let name = format_args!("{operation}:{fingerprint}");
    let key = shared.key_of(RecordKind::Token, name);
    let site = Site::of(Subject::Token, operation).with_key(fingerprint);
    (site, key)
}
