//! The fingerprint of a call: a digest of its key parts. Calls with equal fingerprints are equal.
//!
//! A canonical encoding writes the parts: a type tag before every value, and a length before every
//! string. The digest of the encoded bytes is the [`Fingerprint`]. So `("a", "b:c")` and
//! `("a:b", "c")` differ, `42` and `"42"` differ, and `5_u8` and `5_u64` are equal.
//! The page of `idempotence::fingerprint` (`docs/guide/fingerprint.md` in its package) specifies the
//! encoding, with test vectors, for programs in other languages.

use std::fmt;

use hmac::Hmac;
use hmac::digest::KeyInit;
use md5::Md5;
use serde::Serialize;
use sha2::Sha256;

use self::canonical::DigestOutput;
use self::digest::DigestState;
use self::encode::Encoder;

mod canonical;
mod digest;
mod encode;
pub(crate) mod missing;
mod output;
#[cfg(test)]
mod properties;

pub use self::digest::{Digest, Fingerprint, UnencodablePart};

/// A value that can be part of an idempotency key: every type that implements [`Serialize`].
///
/// Two values are equal if they serialize to the same data. Two kinds of values need care:
///
/// * **Sets.** The order of a `HashSet` is random: two equal sets make two different keys, and no
///   duplicate is refused. Collect the set into a `BTreeSet` or a sorted `Vec`.
///   (Maps of every type are safe, because the encoding sorts their entries.)
/// * **Floats.** The encoding compares their bits: `0.1 + 0.2` and `0.3` differ, and so do `42.0` and
///   `42`. (`-0.0` equals `0.0`, and all NaNs are equal.) Write amounts as integers or strings.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use std::collections::{BTreeSet, HashSet};
///
/// use idempotence::fingerprint::KeyPart;
///
/// fn part(_: &(impl KeyPart + ?Sized)) {}
///
/// part("a string");
/// part(&(42, Some('x'), [1.5, 2.5]));
///
/// let tags = HashSet::from(["new", "paid"]);
/// part(&tags.iter().collect::<BTreeSet<_>>()); // not `&tags`
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key or a payload, because it does not implement `serde::Serialize`",
    label = "not a key part",
    note = "name a field of it, as in `key = \"request.id\"`, or write `#[derive(serde::Serialize)]` on the type",
    note = "of a type of another crate, switch its feature `serde` on, or write an expression, as in `key = (url.as_str())`; for a type parameter write the bound `T: serde::Serialize`"
)]
pub trait KeyPart: Serialize {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> KeyPart for T {}

/// The parts of a key: a tuple, as in `(user_id, file_md5)`, `(user_id,)` or `()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not list the parts of an idempotency key",
    label = "not a tuple of key parts",
    note = "write a tuple, as in `(user_id, file_md5)` or `(user_id,)`"
)]
pub trait Parts {
    /// Adds every part to `hasher`, in order.
    ///
    /// # Errors
    ///
    /// [`UnencodablePart`] if a part could not be serialized.
    fn add_to(&self, hasher: &mut Hasher) -> Result<(), UnencodablePart>;
}

macro_rules! tuples {
    ($($part:ident)*) => {
        impl<$($part: KeyPart),*> Parts for ($($part,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn add_to(&self, hasher: &mut Hasher) -> Result<(), UnencodablePart> {
                let ($($part,)*) = self;
                $(hasher.part($part)?;)*
                Ok(())
            }
        }
        tuples!(@shorter $($part)*);
    };
    (@shorter) => {};
    (@shorter $first:ident $($part:ident)*) => { tuples!($($part)*); };
}

tuples!(A B C D E F G H I J K L);

/// How fingerprints are made: a digest, and optionally a secret.
///
/// Make a `Keying` once and reuse it: it derives the key of the HMAC only once.
///
/// ```
/// # use idempotent_runtime as idempotence;
/// use idempotence::fingerprint::{Digest, Keying};
///
/// let keying = Keying::with_secret(Digest::Sha256, b"secret");
/// let mut hasher = keying.hasher();
/// hasher.part(&42)?;
/// hasher.part("9e107d9d372bb6826bd81d3542a419d6")?;
/// assert_eq!(hasher.finish().as_bytes().len(), 32);
/// # Ok::<(), idempotence::fingerprint::UnencodablePart>(())
/// ```
#[derive(Clone)]
pub struct Keying {
    /// A digest that has already read the key of the HMAC and the start of the encoding.
    state: DigestState,
}

impl Keying {
    /// Uses the plain digest.
    pub fn new(digest: Digest) -> Self {
        Self::prepared(match digest {
            Digest::Md5 => DigestState::Md5(Md5::default()),
            Digest::Sha256 => DigestState::Sha256(Sha256::default()),
        })
    }

    /// Uses HMAC with `secret`. An attacker who sees a fingerprint, but has no secret, cannot find
    /// the parts by trying likely values.
    #[expect(clippy::missing_panics_doc, reason = "HMAC takes a key of any length")]
    pub fn with_secret(digest: Digest, secret: &[u8]) -> Self {
        const ANY_LENGTH: &str = "HMAC takes a key of any length";
        Self::prepared(match digest {
            Digest::Md5 => {
                DigestState::HmacMd5(Box::new(Hmac::new_from_slice(secret).expect(ANY_LENGTH)))
            }
            Digest::Sha256 => {
                DigestState::HmacSha256(Box::new(Hmac::new_from_slice(secret).expect(ANY_LENGTH)))
            }
        })
    }

    fn prepared(mut state: DigestState) -> Self {
        state.update(&canonical::START);
        Self { state }
    }

    /// The name of the digest, and whether an attacker who chooses the parts can make two keys with one fingerprint.
    pub(crate) fn strength(&self) -> (&'static str, bool) {
        match self.state {
            DigestState::Md5(_) => ("MD5", true),
            DigestState::Sha256(_) => ("SHA-256", false),
            DigestState::HmacMd5(_) => ("HMAC-MD5 with a secret", false),
            DigestState::HmacSha256(_) => ("HMAC-SHA-256 with a secret", false),
        }
    }

    /// Whether fingerprints cannot be made without the secret.
    pub(crate) fn has_secret(&self) -> bool {
        matches!(
            self.state,
            DigestState::HmacMd5(_) | DigestState::HmacSha256(_)
        )
    }

    /// Starts a fingerprint.
    #[inline]
    pub fn hasher(&self) -> Hasher {
        Hasher {
            encoder: Encoder::new(DigestOutput::new(self.state.clone())),
        }
    }
}

impl fmt::Debug for Keying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keying").field(&self.state).finish()
    }
}

/// Takes the parts of one key, in order, and makes the [`Fingerprint`].
#[derive(Clone)]
pub struct Hasher {
    encoder: Encoder<DigestOutput>,
}

impl Hasher {
    /// Adds a part.
    ///
    /// # Errors
    ///
    /// [`UnencodablePart`] if this part, or a part before it, could not be serialized. Such a key
    /// has no fingerprint: drop the hasher.
    pub fn part<T: KeyPart + ?Sized>(&mut self, part: &T) -> Result<(), UnencodablePart> {
        self.encoder.value(part)
    }

    /// Adds bytes as a part, in the form of `serialize_bytes`: shorter than the array of numbers that `serde` makes of a slice.
    pub(crate) fn bytes_part(&mut self, bytes: &[u8]) {
        self.encoder.bytes(bytes);
    }

    /// Adds a list of arrays of bytes as a part: does the same as [`part`](Self::part) of a slice of slices, in fewer steps.
    pub(crate) fn arrays_part<'a>(&mut self, arrays: impl Iterator<Item = &'a [u8]>) {
        self.encoder.list_of_arrays(arrays);
    }

    /// Ends the key and returns its fingerprint.
    pub fn finish(mut self) -> Fingerprint {
        self.end()
    }

    /// Does the same as [`finish`](Self::finish), without a move of the hasher. It takes no more parts.
    pub(crate) fn end(&mut self) -> Fingerprint {
        self.encoder.output().finish()
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

impl Fingerprint {
    /// Returns the fingerprint that a handle with the default digest and no secret gives to these
    /// parts: `of(&(a, b))` for `key = "a, b"`, and `of(&(a,))` for `key = "a"`.
    ///
    /// # Errors
    ///
    /// [`UnencodablePart`] if one of the parts could not be serialized.
    pub fn of<T: Parts>(parts: &T) -> Result<Self, UnencodablePart> {
        let mut hasher = Keying::new(Digest::default()).hasher();
        parts.add_to(&mut hasher)?;
        Ok(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_bytes_are_the_same_parts_in_fewer_steps() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        for list in [&[][..], &[b"".as_slice()], &[b"\0a", &bytes, b""]] {
            let mut hasher = Keying::new(Digest::Md5).hasher();
            hasher.arrays_part(list.iter().copied());
            assert_eq!(Fingerprint::of(&(list,)), Ok(hasher.finish()));
        }
    }

    #[test]
    fn bytes_are_the_part_that_a_serializer_of_bytes_makes() {
        struct Bytes<'a>(&'a [u8]);

        impl Serialize for Bytes<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(self.0)
            }
        }

        for bytes in [&b""[..], b"\0a", &[255; 32], &[7; 300]] {
            let mut hasher = Keying::new(Digest::Md5).hasher();
            hasher.bytes_part(bytes);
            assert_eq!(Fingerprint::of(&(Bytes(bytes),)), Ok(hasher.finish()));
        }
    }
}
