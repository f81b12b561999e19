//! The record of a call: one readable line, then the bytes of the result.
//!
//! ```text
//! idem1 R owner=0f1e… payload=- since=2026-11-21T09:30:00.250Z for=33000ms by=web-3:4242 codec=-
//! ```
//!
//! The line of a running claim is written once and never changes, so it is its own compare value. In the line of a done
//! call the codec says what follows: nothing (`-`, `too-large`, `unencodable`), or a result
//! (`json:ok:0:9f86d081`: its form, whether it was an `Ok`, how many `Some` are around it, and the tag of its type).

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::key::fingerprint::Fingerprint;
use crate::record::form::Form;
use crate::record::kept::{Kept, Stored};
use crate::record::owner::Owner;
use crate::world::Moment;

/// Whether the call is running or done, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Done,
}

/// Writes the record of a running call. `lasts` is the time to live of the record.
pub(crate) fn running(
    owner: Owner,
    payload: Option<&Fingerprint>,
    now: Moment,
    lasts: Duration,
) -> Bytes {
    write(State::Running, owner, payload, now, lasts, &Kept::Nothing)
}

/// Writes the record of a call that is done, with its stored result if there is one.
pub(crate) fn done(
    owner: Owner,
    payload: Option<&Fingerprint>,
    now: Moment,
    lasts: Duration,
    kept: &Kept,
) -> Bytes {
    write(State::Done, owner, payload, now, lasts, kept)
}

fn write(
    state: State,
    owner: Owner,
    payload: Option<&Fingerprint>,
    now: Moment,
    lasts: Duration,
    kept: &Kept,
) -> Bytes {
    let result: &[u8] = match kept {
        Kept::Result(stored) => &stored.bytes,
        _ => &[],
    };
    let mut line = String::with_capacity(224);
    line.push_str(VERSION);
    line.push_str(match state {
        State::Running => " R owner=",
        State::Done => " D owner=",
    });
    owner.push_hex(&mut line);
    line.push_str(" payload=");
    match payload {
        Some(payload) => payload.push_hex(&mut line),
        None => line.push('-'),
    }
    line.push_str(" since=");
    push_time(&mut line, now.since_1970);
    line.push_str(" for=");
    let lasts = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
    line.push_str(itoa::Buffer::new().format(lasts));
    line.push_str("ms by=");
    push_holder(&mut line, now.process);
    line.push_str(" codec=");
    push_kept(&mut line, kept);
    line.push('\n');
    let mut record = line.into_bytes();
    record.extend_from_slice(result);
    Bytes::from(record)
}

fn push_kept(line: &mut String, kept: &Kept) {
    match kept {
        Kept::Nothing => line.push('-'),
        Kept::TooLarge => line.push_str("too-large"),
        Kept::Unencodable | Kept::Unreadable => line.push_str("unencodable"),
        Kept::Result(stored) => {
            let side = if stored.failure { "err" } else { "ok" };
            // Writing to a string cannot fail.
            let _ = write!(
                line,
                "{}:{side}:{}:{:08x}",
                stored.form.name(),
                stored.somes,
                stored.schema
            );
        }
    }
}

/// Writes `2026-11-21T09:30:00.250Z`. The date is formatted once a second: for every call it would take a tenth of the time
/// of a call that is guarded in memory.
fn push_time(line: &mut String, since_1970: Duration) {
    thread_local! {
        static SECOND: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now = since_1970.as_secs().min(END_OF_9999);
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != now || text.is_empty() {
            let whole = UNIX_EPOCH + Duration::from_secs(now);
            *second = now;
            *text = humantime::format_rfc3339_seconds(whole).to_string();
            text.truncate(text.len() - 1);
        }
        line.push_str(text);
    });
    // Adding 1000 keeps the leading zeros of the milliseconds. The leading 1 is cut off.
    let mut millis = itoa::Buffer::new();
    line.push('.');
    line.push_str(&millis.format(1000 + since_1970.subsec_millis())[1..]);
    line.push('Z');
}

/// A record, read from its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) state: State,
    pub(crate) holder: &'a str,
    pub(crate) since: SystemTime,
    payload: Option<&'a str>,
    lasts: Duration,
    codec: &'a str,
    result: usize,
    bytes: &'a Bytes,
}

impl<'a> Record<'a> {
    /// Reads a record; `None` if another version or another program wrote it.
    ///
    /// Each field must have exactly the form that this version writes. So an attacker who can write to the store cannot
    /// inject text into the logs, terminals and errors that show the fields.
    pub(crate) fn read(bytes: &'a Bytes) -> Option<Self> {
        let first = &bytes[..bytes.len().min(LONGEST_LINE)];
        let end = first.iter().position(|byte| *byte == b'\n')?;
        let line = str::from_utf8(&bytes[..end]).ok()?;
        let mut fields = line.split(' ');
        if fields.next()? != VERSION {
            return None;
        }
        let state = match fields.next()? {
            "R" => State::Running,
            "D" => State::Done,
            _ => return None,
        };
        let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
        let owner = field("owner")?;
        let payload = Some(field("payload")?).filter(|payload| *payload != "-");
        let since = time(field("since")?)?;
        let lasts = plain(field("for")?.strip_suffix("ms")?)?;
        let holder = Some(field("by")?).filter(|holder| is_holder(holder))?;
        let codec = field("codec")?;
        let read = Self {
            state,
            holder,
            since,
            payload,
            lasts: Duration::from_millis(lasts),
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

    /// Whether the codec is valid and fits the bytes after the line. A later version may write other codecs.
    fn has_valid_ending(&self) -> bool {
        let word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b':' | b'-');
        match self.codec {
            "-" | "too-large" | "unencodable" => self.result == self.bytes.len(),
            codec => self.state == State::Done && !codec.is_empty() && codec.bytes().all(word),
        }
    }

    /// Whether the record has another payload. If either side has no payload, they do not differ.
    pub(crate) fn differs_from(&self, payload: Option<&Fingerprint>) -> bool {
        match (self.payload, payload) {
            (Some(one), Some(other)) => {
                let mut hex = String::with_capacity(64);
                other.push_hex(&mut hex);
                one != hex
            }
            _ => false,
        }
    }

    /// Whether the call ended with an error that is stored for its duplicates.
    pub(crate) fn is_failure(&self) -> bool {
        self.codec.split(':').nth(1) == Some("err")
    }

    /// What the record stores of the result.
    pub(crate) fn kept(&self) -> Kept {
        match self.codec {
            "-" => Kept::Nothing,
            "too-large" => Kept::TooLarge,
            "unencodable" => Kept::Unencodable,
            _ => self.stored().map_or(Kept::Unreadable, Kept::Result),
        }
    }

    fn stored(&self) -> Option<Stored> {
        let mut words = self.codec.split(':');
        let form = Form::of(words.next()?)?;
        let failure = match words.next()? {
            "ok" => false,
            "err" => true,
            _ => return None,
        };
        let somes = u32::try_from(plain(words.next()?)?).ok()?;
        let schema = Some(words.next()?).filter(|schema| is_hex(schema, &[8]))?;
        let schema = u32::from_str_radix(schema, 16).ok()?;
        words.next().is_none().then(|| Stored {
            failure,
            schema,
            form,
            somes,
            bytes: self.bytes.slice(self.result..),
        })
    }

    /// How long ago the record was written, by the clock of this machine.
    pub(crate) fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.since).unwrap_or_default()
    }

    /// The time until the record expires without a renewal. A record older than its time to live has been renewed: the whole
    /// time to live is returned.
    pub(crate) fn left(&self, now: SystemTime) -> Duration {
        self.lasts
            .checked_sub(self.age(now))
            .filter(|remaining| !remaining.is_zero())
            .unwrap_or(self.lasts)
    }
}

/// Whether `digits` are lower-case hexadecimal digits, and their number is one of `lengths`.
fn is_hex(digits: &str, lengths: &[usize]) -> bool {
    let hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    lengths.contains(&digits.len()) && digits.bytes().all(hex)
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

/// Whether `text` is `host:pid`, as [`push_holder`] writes it.
fn is_holder(text: &str) -> bool {
    text.split_once(':').is_some_and(|(host, process)| {
        host.len() <= LONGEST_HOST
            && host.chars().all(|char| is_of_host(&char))
            && plain(process).is_some_and(|process| u32::try_from(process).is_ok())
    })
}

pub(super) const VERSION: &str = "idem1";
const SHAPE_OF_TIME: &[u8] = b"0000-00-00T00:00:00.000Z";
/// The last second of the year 9999: later years have more than four digits.
const END_OF_9999: u64 = 253_402_300_799;

/// Writes the host and this process id, as `host:pid`.
fn push_holder(line: &mut String, process: u32) {
    line.push_str(&HOST);
    line.push(':');
    line.push_str(itoa::Buffer::new().format(process));
}

/// The name of this machine, without characters that could end a field or control a terminal.
static HOST: LazyLock<String> = LazyLock::new(|| {
    let host = hostname::get().unwrap_or_default();
    let host = host.to_string_lossy();
    host.chars().filter(is_of_host).take(LONGEST_HOST).collect()
});

#[expect(clippy::trivially_copy_pass_by_ref, reason = "`filter` passes it so")]
fn is_of_host(char: &char) -> bool {
    char.is_ascii_alphanumeric() || "._-".contains(*char)
}

const LONGEST_HOST: usize = 64;
/// The line of a record is shorter than this, in bytes. The handle has its own limit for results.
pub(crate) const LONGEST_LINE: usize = 512;

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests;
