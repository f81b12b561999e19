//! Base64 (RFC 4648, section 4) without padding. Its bytes are no secrets, so the time may depend on them.

/// Writes the digits of `bytes`, and returns them. `digits` must have room for them.
#[inline]
pub(crate) fn write<'a>(bytes: &[u8], digits: &'a mut [u8]) -> &'a [u8] {
    let (groups, rest) = bytes.as_chunks::<3>();
    let (of_groups, of_rest) = digits.split_at_mut(4 * groups.len());
    for (digits, group) in of_groups.as_chunks_mut::<4>().0.iter_mut().zip(groups) {
        *digits = four(*group);
    }
    let mut length = 4 * groups.len();
    if !rest.is_empty() {
        let mut group = [0; 3];
        group[..rest.len()].copy_from_slice(rest);
        let used = rest.len() + 1;
        of_rest[..used].copy_from_slice(&four(group)[..used]);
        length += used;
    }
    &digits[..length]
}

/// Whether all of `digits` are digits of Base64.
pub(crate) fn is_base64(digits: &[u8]) -> bool {
    let is_digit = |digit: &u8| IS_DIGIT[usize::from(*digit)];
    digits.iter().fold(true, |all, digit| all & is_digit(digit))
}

#[inline]
fn four([first, second, third]: [u8; 3]) -> [u8; 4] {
    let bits = u32::from_be_bytes([0, first, second, third]);
    let digit = |shift: u32| DIGITS[(bits >> shift & 0x3f) as usize];
    [digit(18), digit(12), digit(6), digit(0)]
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Whether a byte is a digit.
const IS_DIGIT: [bool; 256] = {
    let (mut is_digit, mut rest) = ([false; 256], DIGITS.as_slice());
    while let [digit, others @ ..] = rest {
        is_digit[*digit as usize] = true;
        rest = others;
    }
    is_digit
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_no_padding() {
        // RFC 4648, section 10.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}", "w78"),
        ] {
            assert_eq!(write(bytes.as_bytes(), &mut [0; 8]), text.as_bytes());
        }
    }

    #[test]
    fn only_the_64_digits_are_base64() {
        for byte in 0..=u8::MAX {
            assert_eq!(is_base64(&[byte]), DIGITS.contains(&byte), "{byte}");
        }
        assert!(is_base64(b""));
    }
}
