//! Digits in front of the host of a record: of [its key](super::key_tag), and of [all keys of its call](super::keys_digest).
//!
//! ```text
//! 9f86d081..web-3:4242
//! ```
//!
//! They are before the host, because no name of a host has two dots in a row.

use crate::key::hex;

/// `N` hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digits<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> Digits<N> {
    /// The bytes before a host.
    pub(super) const LENGTH: usize = N + DOTS.len();

    /// The digits as text.
    pub(crate) fn as_str(&self) -> &str {
        // Only hexadecimal digits are made and read.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Splits a holder as `host:pid` from the digits before it, if there are any.
    pub(super) fn split(holder: &[u8]) -> (Option<Self>, &[u8]) {
        let split = holder.split_first_chunk();
        let split = split.and_then(|(digits, rest)| Some((digits, rest.strip_prefix(DOTS)?)));
        match split {
            Some((digits, rest)) if hex::is_hex(digits) => (Some(Self(*digits)), rest),
            _ => (None, holder),
        }
    }
}

/// What is between the digits and a host.
pub(super) const DOTS: &[u8] = b"..";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_and_two_dots_are_split_from_a_holder() {
        let (digits, holder) = Digits::split(b"0123abcd..web:7");
        assert_eq!(
            (digits, holder),
            (Some(Digits(*b"0123abcd")), &b"web:7"[..])
        );
        let (digits, holder) = Digits::split(b"0123456789abcdef..web:7");
        let expected = Digits(*b"0123456789abcdef");
        assert_eq!((digits, holder), (Some(expected), &b"web:7"[..]));
    }

    #[test]
    fn a_holder_without_as_many_digits_and_two_dots_is_not_split() {
        for holder in [
            "web:7",
            "0123abcd.web:7",
            "0123abcg..web:7",
            "web..0123abcd:7",
            "0123456789abcdef..web:7",
            "",
        ] {
            let holder = holder.as_bytes();
            assert_eq!(Digits::<8>::split(holder), (None, holder));
        }
        for holder in [
            "web:7",
            "0123abcd..web:7",
            "0123456789abcdef.web:7",
            "0123456789abcdeg..web:7",
            "",
        ] {
            let holder = holder.as_bytes();
            assert_eq!(Digits::<16>::split(holder), (None, holder));
        }
    }
}
