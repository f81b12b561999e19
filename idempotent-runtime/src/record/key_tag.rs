//! A few digits of the key of a record, which are in the record.
//!
//! ```text
//! 9f86d081..web-3:4242
//! ```
//!
//! Without TLS, a proxy or an attacker who drops or repeats one answer of the store makes every later answer the answer to another
//! command. The digits show that a record belongs to another key.

use super::digits::Digits;
use crate::key::hex;

/// The digits of a key.
pub(crate) type KeyTag = Digits<8>;

impl KeyTag {
    /// The digits of this key, by FNV-1a of 64 bits, whose halves are combined. Frozen: all processes must make the same digits.
    pub(crate) fn for_key(key: &str) -> Self {
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let [_, _, _, _, combined @ ..] = (hash ^ hash >> 32).to_be_bytes();
        Self(hex::eight(combined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_of_keys_are_frozen() {
        // `a` and `foobar` are test vectors of FNV-1a: af63dc4c8601ec8c and 85944171f73967e8.
        for (key, digits) in [("", "4fd0bfc1"), ("a", "296230c0"), ("foobar", "72ad2699")] {
            assert_eq!(KeyTag::for_key(key).0, digits.as_bytes(), "{key}");
        }
    }
}
