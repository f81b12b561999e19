//! A few digits of the key of a record, which are in the record.
//!
//! ```text
//! 9f86d081..web-3:4242
//! ```
//!
//! Without TLS, a proxy or an attacker who drops or repeats one answer of the store makes every later answer the answer to another
//! command. The digits show that a record belongs to another key. They are before the host, because no name of a host has two dots in a
//! row.

use crate::key::hex;

/// The digits of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyTag([u8; 8]);

impl KeyTag {
    /// The digits of this key, by FNV-1a of 64 bits, whose halves are combined. Frozen: all processes must make the same digits.
    pub(crate) fn for_key(key: &str) -> Self {
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let [_, _, _, _, combined @ ..] = (hash ^ hash >> 32).to_be_bytes();
        Self(hex::eight(combined))
    }

    /// The digits, as they are written before a host.
    pub(crate) fn before_host(self) -> [u8; LENGTH] {
        let mut text = [b'.'; LENGTH];
        text[..8].copy_from_slice(&self.0);
        text
    }

    /// Splits a holder as `host:pid` from the digits before it, if there are any.
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
pub(super) const LENGTH: usize = 10;

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

    #[test]
    fn only_eight_digits_and_two_dots_are_split_from_a_holder() {
        let (tag, holder) = KeyTag::split(b"0123abcd..web:7");
        assert_eq!((tag, holder), (Some(KeyTag(*b"0123abcd")), &b"web:7"[..]));
        for holder in [
            "web:7",
            "0123abcd.web:7",
            "0123abcg..web:7",
            "web..0123abcd:7",
            "",
        ] {
            assert_eq!(KeyTag::split(holder.as_bytes()), (None, holder.as_bytes()));
        }
    }
}
