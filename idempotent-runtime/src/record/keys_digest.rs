//! A short digest of all keys of a call with several keys. Each of its records has it.
//!
//! ```text
//! 9f86d081..3c59dc048e885024..web-3:4242
//! ```
//!
//! A call that finds one of its keys taken sees by it whether the holder has the same keys, and so does the same work, or only shares
//! this key. It is between the [digits of the key](super::key_tag) and the host. An earlier version reads it as a part of the host.

use crate::key::fingerprint::{Fingerprint, Keying};
use crate::key::hex;

/// The first 64 bits of a digest of the keys of a call, in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeysDigest([u8; 16]);

impl KeysDigest {
    /// The digest of these keys. Their order counts: a transfer from 1 to 2 is not a transfer from 2 to 1. Frozen: all processes must
    /// make the same digits.
    pub(crate) fn of(keying: &Keying, keys: &[Fingerprint]) -> Self {
        let mut hasher = keying.hasher();
        hasher.arrays_part(keys.iter().map(Fingerprint::as_bytes));
        let digest = hasher.finish();
        let mut digits = [0; 16];
        hex::write(&digest.as_bytes()[..8], &mut digits);
        Self(digits)
    }

    /// The digits, as they are written before a host.
    pub(crate) fn before_host(self) -> [u8; LENGTH] {
        let mut text = [b'.'; LENGTH];
        text[..16].copy_from_slice(&self.0);
        text
    }

    /// Splits a holder as `host:pid` from the digest before it, if there is one.
    pub(crate) fn split(holder: &[u8]) -> (Option<Self>, &[u8]) {
        match holder.split_first_chunk::<LENGTH>() {
            Some(([digits @ .., b'.', b'.'], rest)) if hex::is_hex(digits) => {
                (Some(Self(*digits)), rest)
            }
            _ => (None, holder),
        }
    }
}

/// The bytes before a host.
pub(super) const LENGTH: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::fingerprint::Digest;

    fn key(id: u64) -> Fingerprint {
        Fingerprint::of(&(id,)).expect("an integer")
    }

    #[test]
    fn the_digest_depends_on_each_key_on_their_order_and_on_the_secret() {
        let plain = Keying::new(Digest::Md5);
        let secret = Keying::with_secret(Digest::Md5, b"secret");
        let mut digests = Vec::new();
        for keys in [&[1][..], &[1, 1], &[1, 2], &[2, 1], &[1, 3], &[1, 2, 3]] {
            let keys: Vec<_> = keys.iter().copied().map(key).collect();
            let digest = KeysDigest::of(&plain, &keys);
            assert_eq!(digest, KeysDigest::of(&plain, &keys));
            digests.extend([digest, KeysDigest::of(&secret, &keys)]);
        }
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[at + 1..].contains(digest), "{digest:?}");
        }
    }

    #[test]
    fn the_digits_are_frozen() {
        let digest = KeysDigest::of(&Keying::new(Digest::Md5), &[key(1), key(2)]);
        assert_eq!(str::from_utf8(&digest.0), Ok("ed3ffad352067815"));
    }

    #[test]
    fn only_sixteen_digits_and_two_dots_are_split_from_a_holder() {
        let (digest, holder) = KeysDigest::split(b"0123456789abcdef..web:7");
        let expected = KeysDigest(*b"0123456789abcdef");
        assert_eq!((digest, holder), (Some(expected), &b"web:7"[..]));
        for holder in [
            "web:7",
            "0123abcd..web:7",
            "0123456789abcdef.web:7",
            "0123456789abcdeg..web:7",
            "",
        ] {
            assert_eq!(
                KeysDigest::split(holder.as_bytes()),
                (None, holder.as_bytes())
            );
        }
    }
}
