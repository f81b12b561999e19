//! Reads the fields of a record's line, each in exactly the form in which it is written.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::key::base64::is_base64;
use crate::key::hex::is_hex;
use crate::record::line::{IN_HOST, LONGEST_HOST};

/// The bytes of a line that are not read yet. A method returns `None` if the line is not of this version.
pub(super) struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bytes are not read yet.
    pub(super) fn remaining(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads these bytes.
    #[inline]
    pub(super) fn expect<const N: usize>(&mut self, text: &[u8; N]) -> Option<()> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        (taken == text).then_some(())
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads this many digits of Base64.
    pub(super) fn base64(&mut self, length: usize) -> Option<&'a [u8]> {
        self.take(length).filter(|digits| is_base64(digits))
    }

    /// Reads a payload: `-`, or the digits of a fingerprint of 128 or 256 bits.
    #[expect(clippy::option_option, reason = "a record may have no payload")]
    pub(super) fn payload(&mut self) -> Option<Option<&'a [u8]>> {
        if self.is_absent() {
            return Some(None);
        }
        let length = if self.0.get(22) == Some(&b' ') {
            22
        } else {
            43
        };
        self.base64(length).map(Some)
    }

    /// Reads this many hexadecimal digits.
    pub(super) fn hex(&mut self, length: usize) -> Option<&'a [u8]> {
        self.take(length).filter(|digits| is_hex(digits))
    }

    /// Reads a payload in hexadecimal digits, as earlier versions write it.
    #[expect(clippy::option_option, reason = "a record may have no payload")]
    pub(super) fn payload_in_hex(&mut self) -> Option<Option<&'a [u8]>> {
        if self.is_absent() {
            return Some(None);
        }
        let length = if self.0.get(32) == Some(&b' ') {
            32
        } else {
            64
        };
        self.hex(length).map(Some)
    }

    /// Reads a `-`, if that is next.
    fn is_absent(&mut self) -> bool {
        let rest = self.0.strip_prefix(b"-");
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Reads a time: in UTC, to the millisecond.
    pub(super) fn time(&mut self) -> Option<SystemTime> {
        let text: &[u8; 24] = self.take(24)?.try_into().ok()?;
        let mut valid = true;
        let mut number = |at: usize, length: usize| {
            let digits = &text[at..at + length];
            digits.iter().fold(0, |number, digit| {
                let digit = digit.wrapping_sub(b'0');
                valid &= digit < 10;
                10 * number + u32::from(digit)
            })
        };
        let (year, month, day) = (number(0, 4), number(5, 2), number(8, 2));
        let (hour, minute, second) = (number(11, 2), number(14, 2), number(17, 2));
        let millis = number(20, 3);
        // All signs that are not digits.
        let signs = [
            text[4], text[7], text[10], text[13], text[16], text[19], text[23],
        ];
        valid &= signs == *b"--T::.Z";
        valid &= year >= 1970 && hour < 24 && minute < 60 && second < 60;
        if !valid {
            return None;
        }
        let days = days_since_1970(year, month, day)?;
        let seconds = u64::from(days) * 86_400 + u64::from(hour * 3600 + minute * 60 + second);
        Some(UNIX_EPOCH + Duration::new(seconds, millis * 1_000_000))
    }

    /// Reads a number without leading zeros or a sign.
    pub(super) fn number(&mut self) -> Option<u64> {
        let digit = |byte: &u8| Some(byte.wrapping_sub(b'0')).filter(|digit| *digit < 10);
        let first = digit(self.0.first()?)?;
        let mut number = u64::from(first);
        let mut length = 1;
        while let Some(digit) = self.0.get(length).and_then(digit) {
            if first == 0 {
                return None;
            }
            number = number.checked_mul(10)?.checked_add(digit.into())?;
            length += 1;
        }
        self.0 = &self.0[length..];
        Some(number)
    }

    /// Reads a holder, as `host:pid`.
    pub(super) fn holder(&mut self) -> Option<&'a [u8]> {
        let all = self.0;
        let is_end = |byte: &u8| !IN_HOST[usize::from(*byte)];
        let host = all
            .iter()
            .position(is_end)
            .filter(|host| *host <= LONGEST_HOST)?;
        self.0 = &all[host..];
        self.expect(b":")?;
        self.number()
            .and_then(|process| u32::try_from(process).ok())?;
        Some(&all[..all.len() - self.0.len()])
    }

    /// Reads a word and the colon after it.
    pub(super) fn word(&mut self) -> Option<&'a [u8]> {
        self.until(b':')
    }

    /// Reads all bytes of the line, and its end.
    pub(super) fn rest_of_line(&mut self) -> Option<&'a [u8]> {
        self.until(b'\n')
    }

    fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|byte| *byte == end)?;
        let taken = self.take(length)?;
        self.byte()?;
        Some(taken)
    }
}

/// The days from 1970 to a date of the Gregorian calendar; `None` if there is no such date.
fn days_since_1970(year: u32, month: u32, day: u32) -> Option<u32> {
    // The days of a year before each month.
    const BEFORE: [u32; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let index = usize::try_from(month.checked_sub(1)?).ok()?;
    let (before, after) = (*BEFORE.get(index)?, *BEFORE.get(index + 1)?);
    let length = after - before + u32::from(is_leap && month == 2);
    let leap_days = |year: u32| year / 4 - year / 100 + year / 400;
    let leap_days =
        leap_days(year.checked_sub(1)?) - leap_days(1969) + u32::from(is_leap && month > 2);
    (1..=length)
        .contains(&day)
        .then(|| (year - 1970) * 365 + leap_days + before + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_date_is_read_as_humantime_reads_it() {
        let years = (0..2110).chain(2390..2410).chain([2800, 3000, 9996, 9999]);
        for year in years.filter(|year| *year == 0 || *year > 1960) {
            for (month, day) in (0..=13).flat_map(|month| (0..=32).map(move |day| (month, day))) {
                let text = format!("{year:04}-{month:02}-{day:02}T23:59:07.012Z");
                let mut fields = FieldReader::new(text.as_bytes());
                let expected = humantime::parse_rfc3339(&text).ok();
                assert_eq!(fields.time(), expected, "{text}");
            }
        }
    }

    #[test]
    fn every_time_of_a_day_is_read_as_humantime_reads_it() {
        for (hour, second) in (0..=25).flat_map(|hour| (0..=61).map(move |second| (hour, second))) {
            for (minute, millis) in [(0, 0), (59, 999), (60, 1)] {
                let text = format!("2024-02-29T{hour:02}:{minute:02}:{second:02}.{millis:03}Z");
                let mut fields = FieldReader::new(text.as_bytes());
                // `humantime` reads a leap second, but no version writes a leap second.
                let expected = humantime::parse_rfc3339(&text).ok().filter(|_| second < 60);
                assert_eq!(fields.time(), expected, "{text}");
            }
        }
    }

    #[test]
    fn a_number_has_no_leading_zero_no_sign_and_64_bits() {
        for (text, number, rest) in [
            ("0", Some(0), 0),
            ("0ms", Some(0), 2),
            ("18446744073709551615 ", Some(u64::MAX), 1),
            ("18446744073709551616", None, 0),
            ("00", None, 0),
            ("01", None, 0),
            ("+1", None, 0),
            ("-1", None, 0),
            ("", None, 0),
            ("m", None, 0),
        ] {
            let mut fields = FieldReader::new(text.as_bytes());
            assert_eq!(fields.number(), number, "{text}");
            if number.is_some() {
                assert_eq!(fields.remaining(), rest, "{text}");
            }
        }
    }
}
