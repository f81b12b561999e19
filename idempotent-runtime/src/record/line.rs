//! Writes the line of a record into one buffer.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use super::key_tag::{self, KeyTag};

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

    /// Writes a time such as `2026-11-21T09:30:00.250Z`. The date is formatted once a second: for every call it would take a
    /// tenth of the time of a call that is guarded in memory.
    pub(super) fn push_time(&mut self, since_1970: Duration) {
        thread_local! {
            static SECOND: RefCell<(u64, [u8; 20])> = const { RefCell::new((u64::MAX, [0; 20])) };
        }
        let now = since_1970.as_secs().min(END_OF_9999);
        SECOND.with_borrow_mut(|(second, text)| {
            if *second != now {
                let whole = UNIX_EPOCH + Duration::from_secs(now);
                let written = humantime::format_rfc3339_seconds(whole).to_string();
                text.copy_from_slice(written.as_bytes());
                // This overwrites the `Z`.
                text[19] = b'.';
                *second = now;
            }
            self.push(text);
        });
        let millis = since_1970.subsec_millis();
        let digit = |of: u32| b'0' + (millis / of % 10).to_le_bytes()[0];
        self.push(&[digit(100), digit(10), digit(1), b'Z']);
    }

    /// Writes the host and this process id, as `host:pid`, after the digits of the key if the record has them. Then the host is cut, so
    /// that earlier versions read both as the name of a host.
    pub(super) fn push_holder(&mut self, tag: Option<KeyTag>, process: u32) {
        let mut host = HOST.as_bytes();
        if let Some(tag) = tag {
            self.push(&tag.before_host());
            host = &host[..host.len().min(LONGEST_HOST - key_tag::LENGTH)];
        }
        self.push(host);
        self.push(b":");
        self.push_number(process.into());
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
/// The last second of the year 9999: later years have more than four digits.
pub(super) const END_OF_9999: u64 = 253_402_300_799;
/// More than the longest line that this version writes, which has 295 bytes.
pub(super) const LONGEST: usize = 320;
/// Enough for a line without a result, with a payload of MD5 and a host of 30 characters.
pub(super) const SHORT: usize = 184;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_fits() {
        let mut line = Line::<LONGEST>::new();
        line.push(b"idem1 D owner=");
        line.push(&[b'f'; 32]);
        line.push(b" payload=");
        line.push(&[b'f'; 64]);
        line.push(b" since=");
        line.push_time(Duration::MAX);
        line.push(b" for=");
        line.push_number(u64::MAX);
        line.push(b"ms by=");
        line.push_holder(None, u32::MAX);
        line.push(b" codec=msgpack:err:");
        line.push_number(u32::MAX.into());
        line.push(b":ffffffff\n");
        let longest = line.length - HOST.len() + LONGEST_HOST;
        assert_eq!(longest, 295);
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
