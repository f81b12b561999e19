//! Writes the line of a record into one buffer.

use std::sync::LazyLock;

use bytes::Bytes;

use super::digits::{DOTS, Digits};
use super::key_tag::KeyTag;
use super::keys_digest::KeysDigest;

/// The line of a record while it is written, of at most `N` bytes. Later bytes are cut off.
pub(super) struct Line<const N: usize> {
    bytes: [u8; N],
    /// The length of the whole line.
    length: usize,
}

impl<const N: usize> Line<N> {
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; N],
            length: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        let end = self.length + text.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(text);
        }
        self.length = end;
    }

    pub(super) fn push_number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Writes the host and this process id, as `host:pid`, after the digits of the key and of all keys, if the record has them. Then the
    /// host is cut, because all together are read as a host.
    pub(super) fn push_holder(
        &mut self,
        tag: Option<KeyTag>,
        keys: Option<KeysDigest>,
        process: u32,
    ) {
        let before = self.push_digits(tag) + self.push_digits(keys);
        let host = HOST.as_bytes();
        self.push(&host[..host.len().min(LONGEST_HOST - before)]);
        self.push(b":");
        self.push_number(process.into());
    }

    /// Writes the digits, if there are any, and returns how many bytes they and their dots have.
    fn push_digits<const M: usize>(&mut self, digits: Option<Digits<M>>) -> usize {
        let Some(Digits(digits)) = digits else {
            return 0;
        };
        self.push(&digits);
        self.push(DOTS);
        Digits::<M>::LENGTH
    }

    /// The record with this line and no result, in one allocation; `None` if the line is longer than `N`.
    pub(super) fn into_record(self) -> Option<Bytes> {
        (self.length <= N).then(|| Bytes::from_owner(self))
    }

    /// The record with this line and a result, which may be in two places.
    pub(super) fn with_result(&self, result: &[u8], tail: &[u8]) -> Bytes {
        let line = self.as_ref();
        // With an exact capacity, because `Bytes` would box a vector with another capacity.
        let mut record = Vec::with_capacity(line.len() + result.len() + tail.len());
        record.extend_from_slice(line);
        record.extend_from_slice(result);
        record.extend_from_slice(tail);
        Bytes::from(record)
    }
}

impl<const N: usize> AsRef<[u8]> for Line<N> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length.min(N)]
    }
}

/// The name of this machine, without characters that could end a field or control a terminal.
pub(super) static HOST: LazyLock<String> = LazyLock::new(|| {
    let host = hostname::get().unwrap_or_default();
    let host = host.to_string_lossy();
    host.chars().filter(is_of_host).take(LONGEST_HOST).collect()
});

#[expect(clippy::trivially_copy_pass_by_ref, reason = "`filter` passes it so")]
fn is_of_host(char: &char) -> bool {
    u8::try_from(*char).is_ok_and(|byte| IN_HOST[usize::from(byte)])
}

/// Whether a host may contain this byte: ASCII letters, digits, and `. _ -`.
pub(super) static IN_HOST: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        allowed[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        byte += 1;
    }
    allowed
};

pub(super) const LONGEST_HOST: usize = 64;
/// The last millisecond of the year 9999: later years have more than four digits.
pub(super) const LAST_MILLI: u64 = 253_402_300_799_999;
/// More than the longest line that this version writes, which has 220 bytes.
pub(super) const LONGEST: usize = 224;
/// Enough for a line without a result, with a payload of MD5 and a host of 30 characters.
pub(super) const SHORT: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_fits() {
        let mut line = Line::<LONGEST>::new();
        line.push(b"idem2 D ");
        line.push(&[b'f'; 22]);
        line.push(b" ");
        line.push_number(LAST_MILLI);
        line.push(b" ");
        line.push_number(u64::MAX);
        line.push(b" ");
        line.push_holder(None, None, u32::MAX);
        line.push(b" ");
        line.push(&[b'f'; 43]);
        line.push(b" msgpack:err:");
        line.push_number(u32::MAX.into());
        line.push(b":ffffffff\n");
        let longest = line.length - HOST.len() + LONGEST_HOST;
        assert_eq!(longest, 220);
        assert!(longest <= LONGEST);
    }

    #[test]
    fn a_line_that_does_not_fit_makes_no_record() {
        for length in 0..12 {
            let mut line = Line::<8>::new();
            for byte in &b"0123456789abc"[..length] {
                line.push(&[*byte]);
            }
            let record = line.into_record();
            let expected = (length <= 8).then(|| &b"01234567"[..length]);
            assert_eq!(record.as_deref(), expected);
        }
    }
}
