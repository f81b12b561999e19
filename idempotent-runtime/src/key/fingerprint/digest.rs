//! The digests of a key: their algorithms, and the fingerprint that they return.

use std::fmt;

use hmac::Hmac;
use hmac::digest::{FixedOutput, Update};
use md5::Md5;
use sha2::Sha256;

/// The digest that turns the encoded key parts into a [`Fingerprint`].
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::fingerprint::{Digest, Keying};
///
/// assert_eq!(Digest::default(), Digest::Md5);
/// let fingerprint = Keying::new(Digest::Sha256).hasher().finish();
/// assert_eq!(fingerprint.as_bytes().len(), 32);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Digest {
    /// Fast, 16 bytes: for parts whose choice is of no use to an attacker. Without a secret, an attacker who chooses two whole
    /// parts can give them one fingerprint: the second call is then refused as a duplicate, or returns the result of the first
    /// call.
    #[default]
    Md5,
    /// 32 bytes: for parts that an attacker may choose to make two calls collide.
    Sha256,
}

/// The digest of the parts of a key.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::fingerprint::Fingerprint;
///
/// let fingerprint = Fingerprint::of(&(42, "9e107d9d372bb6826bd81d3542a419d6"))?;
/// assert_eq!(fingerprint.to_string(), "2240b97d68f753965e09dc17b7b59356");
/// # Ok::<(), idempotence::fingerprint::UnencodablePart>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    bytes: [u8; 32],
    length: u8,
}

impl Fingerprint {
    /// The bytes of the digest: 16 for MD5, 32 for SHA-256.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The first four bytes, enough to distinguish keys in a log.
    pub fn short(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.bytes;
        [a, b, c, d]
    }

    /// Appends all bytes to `text`, as lower-case hexadecimal digits.
    pub fn push_hex(&self, text: &mut String) {
        text.push_str(hex(self.as_bytes(), &mut [0; 64]));
    }

    /// Its lower-case hexadecimal digits.
    pub(crate) fn hex<'a>(&self, digits: &'a mut [u8; 64]) -> &'a str {
        hex(self.as_bytes(), digits)
    }

    /// The first 8 digits, as the log has them.
    pub(crate) fn digits(&self) -> String {
        hex(&self.short(), &mut [0; 64]).to_owned()
    }

    /// Reads the digits that [`push_hex`](Self::push_hex) writes. `None` if this is no fingerprint.
    pub(crate) fn read(digits: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let read = base16ct::lower::decode(digits, &mut bytes).ok()?;
        matches!(read.len(), 16 | 32).then(|| Self::new(read))
    }

    /// The fingerprint of a slot of this key: for slot 0 itself, else with another last byte.
    pub(crate) fn slot(mut self, slot: u8) -> Self {
        let length = usize::from(self.length);
        if let Some(last) = self.bytes[..length].last_mut() {
            *last ^= slot;
        }
        self
    }

    fn new(digest: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes[..digest.len()].copy_from_slice(digest);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the line above allows 32 at most"
        )]
        let length = digest.len() as u8;
        Self { bytes, length }
    }
}

fn hex<'a>(bytes: &[u8], digits: &'a mut [u8; 64]) -> &'a str {
    // 64 digits are enough: a fingerprint has at most 32 bytes, with two digits for each byte.
    base16ct::lower::encode_str(bytes, digits).unwrap_or_default()
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(hex(self.as_bytes(), &mut [0; 64]))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", hex(&self.short(), &mut [0; 64]))
    }
}

/// The error for a key part whose [`Serialize`](serde::Serialize) implementation failed, or that is nested deeper than
/// 128 levels.
///
/// The error has no details on purpose: the message of the implementation may quote the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key part could not be serialized")]
#[non_exhaustive]
pub struct UnencodablePart;

impl serde::ser::Error for UnencodablePart {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self
    }
}

/// The state of a digest that reads bytes.
#[derive(Clone)]
pub(super) enum DigestState {
    Md5(Md5),
    Sha256(Sha256),
    // Boxed, because these states are large and few calls have a secret.
    HmacMd5(Box<Hmac<Md5>>),
    HmacSha256(Box<Hmac<Sha256>>),
}

impl DigestState {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(state) => Update::update(state, bytes),
            Self::Sha256(state) => Update::update(state, bytes),
            Self::HmacMd5(state) => Update::update(&mut **state, bytes),
            Self::HmacSha256(state) => Update::update(&mut **state, bytes),
        }
    }

    // Takes a reference, because moving the state costs more than the clone of one variant.
    pub(super) fn finish(&self) -> Fingerprint {
        match self {
            Self::Md5(state) => Fingerprint::new(&state.clone().finalize_fixed()),
            Self::Sha256(state) => Fingerprint::new(&state.clone().finalize_fixed()),
            Self::HmacMd5(state) => Fingerprint::new(&Hmac::clone(state).finalize_fixed()),
            Self::HmacSha256(state) => Fingerprint::new(&Hmac::clone(state).finalize_fixed()),
        }
    }
}

impl fmt::Debug for DigestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Md5(_) => "Md5",
            Self::Sha256(_) => "Sha256",
            Self::HmacMd5(_) => "Md5 with a secret",
            Self::HmacSha256(_) => "Sha256 with a secret",
        })
    }
}
