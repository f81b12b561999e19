//! The keys that a guarded body sends to other services.

use std::fmt::Write as _;

use super::endpoint::Endpoint;
use super::fingerprint::{Digest, Fingerprint, Keying};

/// The key for the request `name` of the call with this key: a UUID of version 8 (RFC 9562, section 5.8).
///
/// Its bits are the first 128 bits of the SHA-256 fingerprint of the parts `["downstream", prefix, endpoint, key, name]`, all of
/// them strings. The key is in hexadecimal digits. The six bits of the version and of the variant are then set, as in the
/// name-based example of RFC 9562, appendix B.2. `docs/guide/fingerprint.md` describes this for other languages.
///
/// Frozen: after a change, a body that runs again would send another key than before.
pub(crate) fn downstream_key(
    prefix: &str,
    endpoint: &Endpoint,
    key: &Fingerprint,
    name: &str,
) -> String {
    from_parts(&[
        "downstream",
        prefix,
        endpoint.in_key(),
        key.hex(&mut [0; 64]),
        name,
    ])
}

/// The key for the request `name` of a call without a key. `bits` are random, and the same for the whole call.
pub(crate) fn downstream_key_without_key(bits: u128, name: &str) -> String {
    let bits = format!("{bits:032x}");
    from_parts(&["downstream-unguarded", &bits, name])
}

fn from_parts(parts: &[&str]) -> String {
    let mut hasher = Keying::new(Digest::Sha256).hasher();
    for part in parts {
        // A string can always be encoded.
        let _ = hasher.part(*part);
    }
    let mut bits = [0; 16];
    bits.copy_from_slice(&hasher.finish().as_bytes()[..16]);
    bits[6] = bits[6] & 0x0f | 0x80; // version 8
    bits[8] = bits[8] & 0x3f | 0x80; // the variant of RFC 9562
    let mut text = String::with_capacity(36);
    for (at, byte) in bits.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a `String` never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(prefix: &str, endpoint: &'static str, name: &str) -> String {
        let key = Fingerprint::of(&(42, "9e107d9d372bb6826bd81d3542a419d6")).unwrap();
        downstream_key(prefix, &Endpoint::named(endpoint), &key, name)
    }

    /// The expected texts were computed by a program in another language, from the page alone.
    #[test]
    fn keys_never_change() {
        for (prefix, endpoint, name, expected) in [
            (
                "idem",
                "orders.pay",
                "stripe.charge",
                "e18bfb23-4ead-820e-80c0-6e0d9a3279a5",
            ),
            (
                "idem",
                "orders.pay",
                "stripe.refund",
                "916f52a6-1741-8ff3-94b3-f98217d67511",
            ),
            (
                "shop",
                "orders.pay",
                "stripe.charge",
                "53be2b77-d796-8f55-a4d6-d1ebbb8596ac",
            ),
            (
                "idem",
                "orders.refund",
                "stripe.charge",
                "f03e5644-7319-8da3-a008-fbcd892cedea",
            ),
        ] {
            assert_eq!(key_of(prefix, endpoint, name), expected);
        }
    }

    #[test]
    fn the_page_has_the_key_of_its_example() {
        const PAGE: &str = include_str!("../../../docs/guide/fingerprint.md");
        let key = key_of("idem", "orders.pay", "stripe.charge");
        assert!(PAGE.contains(&format!("`{key}`")), "{key}");
    }

    #[test]
    fn a_key_has_the_form_of_a_uuid_of_version_8() {
        for name in (0..200).map(|name| name.to_string()) {
            for key in [
                key_of("idem", "orders.pay", &name),
                downstream_key_without_key(7, &name),
            ] {
                let lengths: Vec<usize> = key.split('-').map(str::len).collect();
                assert_eq!(lengths, [8, 4, 4, 4, 12], "{key}");
                let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f' | '-');
                assert!(key.chars().all(is_digit), "{key}");
                assert_eq!(&key[14..15], "8", "{key}");
                assert!("89ab".contains(&key[19..20]), "{key}");
            }
        }
    }
}
