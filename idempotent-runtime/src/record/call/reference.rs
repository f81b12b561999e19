//! The first reader of records: slow, and the reference that decides what is a record.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::{LONGEST_LINE, RecordState};
use crate::record::form::Form;
use crate::record::kept::{Kept, Stored};

/// A record, read from its bytes.
pub(super) struct Reference<'a> {
    pub(super) state: RecordState,
    pub(super) holder: &'a str,
    pub(super) since: SystemTime,
    pub(super) payload: Option<&'a str>,
    pub(super) ttl: Duration,
    pub(super) codec: &'a str,
    pub(super) result: usize,
    bytes: &'a Bytes,
}

impl<'a> Reference<'a> {
    /// Reads a record; `None` if another version or another program wrote it.
    pub(super) fn read(bytes: &'a Bytes) -> Option<Self> {
        let first = &bytes[..bytes.len().min(LONGEST_LINE)];
        let end = first.iter().position(|byte| *byte == b'\n')?;
        let line = str::from_utf8(&bytes[..end]).ok()?;
        let mut fields = line.split(' ');
        let is_earlier = match fields.next()? {
            "idem1" => true,
            "idem2" => false,
            _ => return None,
        };
        let state = match fields.next()? {
            "R" => RecordState::Running,
            "D" => RecordState::Done,
            _ => return None,
        };
        if !is_earlier {
            return Self::short(state, &fields.collect::<Vec<_>>(), end + 1, bytes);
        }
        let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
        let owner = field("owner")?;
        let payload = Some(field("payload")?).filter(|payload| *payload != "-");
        let since = time(field("since")?)?;
        let ttl = plain(field("for")?.strip_suffix("ms")?)?;
        let holder = Some(field("by")?).filter(|holder| is_holder(holder))?;
        let codec = field("codec")?;
        let read = Self {
            state,
            holder,
            since,
            payload,
            ttl: Duration::from_millis(ttl),
            codec,
            result: end + 1,
            bytes,
        };
        let whole = fields.next().is_none()
            && is_hex(owner, &[32])
            && payload.is_none_or(|payload| is_hex(payload, &[32, 64]))
            && read.has_valid_ending();
        whole.then_some(read)
    }

    fn short(
        state: RecordState,
        fields: &[&'a str],
        result: usize,
        bytes: &'a Bytes,
    ) -> Option<Self> {
        let (owner, since, ttl, holder, payload, codec) = match *fields {
            [owner, since, ttl, holder] => (owner, since, ttl, holder, None, "-"),
            [_, _, _, _, "-", "-"] => return None,
            [owner, since, ttl, holder, "-", codec] => (owner, since, ttl, holder, None, codec),
            [owner, since, ttl, holder, payload, codec] => {
                (owner, since, ttl, holder, Some(payload), codec)
            }
            _ => return None,
        };
        let since = plain(since).filter(|since| *since < 253_402_300_800_000)?;
        let read = Self {
            state,
            holder: Some(holder).filter(|holder| is_holder(holder))?,
            since: SystemTime::UNIX_EPOCH + Duration::from_millis(since),
            payload,
            ttl: Duration::from_millis(plain(ttl)?),
            codec,
            result,
            bytes,
        };
        let whole = is_base64(owner, &[22])
            && payload.is_none_or(|payload| is_base64(payload, &[22, 43]))
            && read.has_valid_ending();
        whole.then_some(read)
    }

    /// Whether the codec is valid and fits the bytes after the line. A later version may write other codecs.
    fn has_valid_ending(&self) -> bool {
        let word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b':' | b'-');
        match self.codec {
            "-" | "too-large" | "unencodable" => self.result == self.bytes.len(),
            codec => {
                self.state == RecordState::Done && !codec.is_empty() && codec.bytes().all(word)
            }
        }
    }

    /// Whether the call ended with an error that is stored for its duplicates.
    pub(super) fn is_failure(&self) -> bool {
        self.codec.split(':').nth(1) == Some("err")
    }

    /// The part of the record about the result.
    pub(super) fn kept(&self) -> Kept {
        match self.codec {
            "-" => Kept::Nothing,
            "too-large" => Kept::TooLarge,
            "unencodable" => Kept::Unencodable,
            _ => self.stored().map_or(Kept::Unreadable, Kept::Result),
        }
    }

    fn stored(&self) -> Option<Stored> {
        let mut words = self.codec.split(':');
        let form = Form::from_name(words.next()?.as_bytes())?;
        let failure = match words.next()? {
            "ok" => false,
            "err" => true,
            _ => return None,
        };
        let option_depth = u32::try_from(plain(words.next()?)?).ok()?;
        let schema = Some(words.next()?).filter(|schema| is_hex(schema, &[8]))?;
        let schema = u32::from_str_radix(schema, 16).ok()?;
        words.next().is_none().then(|| Stored {
            failure,
            schema,
            form,
            option_depth,
            bytes: self.bytes.slice(self.result..),
            tail: Bytes::new(),
        })
    }
}

/// Whether `digits` are lower-case hexadecimal digits, and their number is one of `lengths`.
fn is_hex(digits: &str, lengths: &[usize]) -> bool {
    let hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    lengths.contains(&digits.len()) && digits.bytes().all(hex)
}

/// Whether `digits` are digits of Base64, and their number is one of `lengths`.
fn is_base64(digits: &str, lengths: &[usize]) -> bool {
    let digit = |char: char| char.is_ascii_alphanumeric() || "+/".contains(char);
    lengths.contains(&digits.len()) && digits.chars().all(digit)
}

/// Reads a number in the form that this version writes: `parse` also reads `+3` and `03`.
fn plain(digits: &str) -> Option<u64> {
    let number = digits.parse().ok()?;
    (itoa::Buffer::new().format(number) == digits).then_some(number)
}

/// Reads a time in the form that this version writes: in UTC, to the millisecond.
fn time(text: &str) -> Option<SystemTime> {
    let written = text.len() == SHAPE_OF_TIME.len()
        && text
            .bytes()
            .zip(SHAPE_OF_TIME)
            .all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                shape => byte == *shape,
            });
    // `humantime` reads a leap second, but no version writes one.
    let written = written && !text.contains(":60.");
    written.then(|| humantime::parse_rfc3339(text).ok())?
}

/// Whether `text` is `host:pid`.
fn is_holder(text: &str) -> bool {
    text.split_once(':').is_some_and(|(host, process)| {
        host.len() <= LONGEST_HOST
            && host.chars().all(is_of_host)
            && plain(process).is_some_and(|process| u32::try_from(process).is_ok())
    })
}

fn is_of_host(char: char) -> bool {
    char.is_ascii_alphanumeric() || "._-".contains(char)
}

const LONGEST_HOST: usize = 64;
const SHAPE_OF_TIME: &[u8] = b"0000-00-00T00:00:00.000Z";
