//! A short digest of all keys of a call with several keys. Each of its records has it.
//!
//! ```text
//! 9f86d081..3c59dc048e885024..web-3:4242
//! ```
//!
//! A call that finds one of its keys taken sees by it whether the holder has the same keys, and so does the same work, or only shares
//! this key. It is between the [digits of the key](super::key_tag) and the host. An earlier version reads it as a part of the host.

use super::digits::Digits;
use crate::key::fingerprint::{Fingerprint, Keying};
use crate::key::hex;

/// The first 64 bits of a digest of the keys of a call, in hexadecimal digits.
pub(crate) type KeysDigest = Digits<16>;

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
}

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
}
