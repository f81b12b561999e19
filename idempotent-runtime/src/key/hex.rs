//! Lower-case hexadecimal digits. Their bytes are no secrets, so the time may depend on them.

/// The digits of 128 bits.
pub(crate) fn sixteen(bytes: [u8; 16]) -> [u8; 32] {
    let mut digits = [0; 32];
    let groups = bytes.as_chunks::<4>().0.iter();
    for (digits, group) in digits.as_chunks_mut::<8>().0.iter_mut().zip(groups) {
        *digits = eight(*group);
    }
    digits
}

/// Writes the digits of as many bytes as `digits` has room for, in groups of four, and returns the digits.
pub(crate) fn write<'a>(bytes: &[u8], digits: &'a mut [u8]) -> &'a [u8] {
    let groups = bytes.as_chunks::<4>().0.iter();
    for (digits, group) in digits.as_chunks_mut::<8>().0.iter_mut().zip(groups) {
        *digits = eight(*group);
    }
    &digits[..2 * bytes.len()]
}

/// Whether all of `digits` are lower-case hexadecimal digits.
pub(crate) fn is_hex(digits: &[u8]) -> bool {
    // Without an early end, because the compiler then compares many bytes at once.
    let is_digit = |digit: &u8| digit.is_ascii_digit() | matches!(digit, b'a'..=b'f');
    digits.iter().fold(true, |all, digit| all & is_digit(digit))
}

/// The digits of four bytes, all at once in one number.
#[inline]
pub(crate) fn eight(bytes: [u8; 4]) -> [u8; 8] {
    let mut spread = u64::from(u32::from_be_bytes(bytes));
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // One in each byte that is above nine.
    let letters = ((spread + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    let from_nine_to_a = u64::from(b'a' - b'9' - 1);
    (spread + 0x3030_3030_3030_3030 + letters * from_nine_to_a).to_be_bytes()
}

/// The number that eight digits write.
pub(crate) fn value(digits: [u8; 8]) -> u32 {
    // The lower half of a letter begins with 1 for `a`, and only letters have the bit of 64.
    let of = |digit: u8| u32::from(digit & 0xf) + 9 * u32::from(digit >> 6);
    digits
        .iter()
        .fold(0, |value, digit| value << 4 | of(*digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_digits_is_the_number_that_has_them() {
        for number in (0..=u32::MAX).step_by(99_991) {
            assert_eq!(value(eight(number.to_be_bytes())), number);
        }
    }

    #[test]
    fn every_byte_has_its_two_digits() {
        for first in 0..=u8::MAX {
            let mut byte = first;
            let bytes: [u8; 16] = std::array::from_fn(|_| {
                byte = byte.wrapping_add(29);
                byte
            });
            let expected = bytes.map(|byte| format!("{byte:02x}")).concat();
            assert_eq!(sixteen(bytes), expected.as_bytes());
            assert_eq!(write(&bytes, &mut [0; 64]), expected.as_bytes());
            assert_eq!(write(&bytes[..4], &mut [0; 8]), &expected.as_bytes()[..8]);
        }
    }

    #[test]
    fn only_lower_case_hexadecimal_digits_are_hex() {
        for byte in 0..=u8::MAX {
            let expected = b"0123456789abcdef".contains(&byte);
            assert_eq!(is_hex(&[byte]), expected, "{byte}");
            assert_eq!(is_hex(&[b'0', byte, b'f']), expected, "{byte}");
        }
        assert!(is_hex(b""));
    }
}
