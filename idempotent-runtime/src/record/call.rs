//! The record of a call: one readable line, then the bytes of the result.
//!
//! ```text
//! idem1 R owner=0f1e… payload=- since=2026-11-21T09:30:00.250Z for=33000ms by=web-3:4242 codec=-
//! ```
//!
//! The line of a running claim is written once and never changes, so it is its own compare value. In the line of a done
//! call the codec says what follows: nothing (`-`, `too-large`, `unencodable`), or a result
//! (`json:ok:0:9f86d081`: its form, whether it was an `Ok`, how many `Some` are around it, and the tag of its type).
//! A running claim with the codec `unencodable` is marked: its call has ended, and its outcome is unknown.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::key::fingerprint::Fingerprint;
use crate::key::hex;
use crate::record::fields::FieldReader;
use crate::record::form::Form;
use crate::record::kept::{Kept, Stored};
use crate::record::key_tag::KeyTag;
use crate::record::line::{LONGEST, Line, SHORT};
use crate::record::owner::Owner;
use crate::world::Moment;

/// Whether the call is running or done, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordState {
    Running,
    Done,
}

/// What the line of a record says of its call and its claim.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    /// The digits of the key, if records of this store have them.
    pub(crate) key: Option<KeyTag>,
    pub(crate) owner: Owner,
    pub(crate) payload: Option<&'a Fingerprint>,
    pub(crate) now: Moment,
    /// The time to live of the record.
    pub(crate) ttl: Duration,
}

/// Writes the record of a running call.
pub(crate) fn running(head: &Head<'_>) -> Bytes {
    write(RecordState::Running, head, &Kept::Nothing)
}

/// Writes the record of a call that has ended, and whose work may be done or not. It has the key as the record of a running call
/// has, and a version that does not know the mark reads it as such: its codec is `unencodable`, which says that no outcome can be
/// written.
pub(crate) fn marked(head: &Head<'_>) -> Bytes {
    write(RecordState::Running, head, &Kept::Unknown)
}

/// Writes the record of a call that is done, with its stored result if there is one.
pub(crate) fn done(head: &Head<'_>, kept: &Kept) -> Bytes {
    write(RecordState::Done, head, kept)
}

fn write(state: RecordState, head: &Head<'_>, kept: &Kept) -> Bytes {
    if let Kept::Result(stored) = kept {
        let line: Line<LONGEST> = line(state, head, |line| push_kept(line, kept));
        return line.with_result(&stored.bytes, &stored.tail);
    }
    let short: Line<SHORT> = line(state, head, |line| push_kept(line, kept));
    short.into_record().unwrap_or_else(|| {
        let line: Line<LONGEST> = line(state, head, |line| push_kept(line, kept));
        line.with_result(&[], &[])
    })
}

fn line<const N: usize>(
    state: RecordState,
    head: &Head<'_>,
    push_codec: impl FnOnce(&mut Line<N>),
) -> Line<N> {
    let mut line = Line::new();
    line.push(match state {
        RecordState::Running => b"idem1 R owner=",
        RecordState::Done => b"idem1 D owner=",
    });
    line.push(&head.owner.hex());
    line.push(b" payload=");
    match head.payload {
        Some(payload) => line.push(hex::write(payload.as_bytes(), &mut [0; 64])),
        None => line.push(b"-"),
    }
    line.push(b" since=");
    line.push_time(head.now.since_1970);
    line.push(b" for=");
    let lasts_millis = head.ttl.as_secs().saturating_mul(1000);
    line.push_number(lasts_millis.saturating_add(head.ttl.subsec_millis().into()));
    line.push(b"ms by=");
    line.push_holder(head.key, head.now.process);
    line.push(b" codec=");
    push_codec(&mut line);
    line.push(b"\n");
    line
}

fn push_kept<const N: usize>(line: &mut Line<N>, kept: &Kept) {
    match kept {
        Kept::Nothing => line.push(b"-"),
        Kept::TooLarge => line.push(b"too-large"),
        Kept::Unencodable | Kept::Unknown | Kept::Unreadable => line.push(b"unencodable"),
        Kept::Result(stored) => push_result(line, stored),
    }
}

fn push_result<const N: usize>(line: &mut Line<N>, stored: &Stored) {
    line.push(stored.form.name().as_bytes());
    line.push(if stored.failure { b":err:" } else { b":ok:" });
    line.push_number(stored.option_depth.into());
    line.push(b":");
    line.push(&hex::eight(stored.schema.to_be_bytes()));
}

/// A record, read from its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) state: RecordState,
    pub(crate) since: SystemTime,
    key: Option<KeyTag>,
    holder: &'a [u8],
    payload: Option<&'a [u8]>,
    ttl: Duration,
    content: Content,
    result: usize,
    bytes: &'a Bytes,
}

/// What a record stores of the result, by the codec in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Nothing,
    TooLarge,
    Unencodable,
    /// A result of a later version.
    Unreadable {
        failure: bool,
    },
    /// A sealed result, and the id of the key that opens it.
    Sealed {
        failure: bool,
        key_id: [u8; 8],
    },
    Result {
        form: Form,
        failure: bool,
        option_depth: u32,
        schema: u32,
    },
}

impl<'a> Record<'a> {
    /// Reads a record; `None` if another version or another program wrote it.
    ///
    /// Each field must have exactly the form that this version writes. So an attacker who can write to the store cannot
    /// inject text into the logs, terminals and errors that show the fields.
    pub(crate) fn read(bytes: &'a Bytes) -> Option<Self> {
        let first = &bytes[..bytes.len().min(LONGEST_LINE)];
        let mut fields = FieldReader::new(first);
        fields.expect(b"idem1 ")?;
        let state = match fields.byte()? {
            b'R' => RecordState::Running,
            b'D' => RecordState::Done,
            _ => return None,
        };
        fields.expect(b" owner=")?;
        fields.hex(32)?;
        fields.expect(b" payload=")?;
        let payload = fields.payload()?;
        fields.expect(b" since=")?;
        let since = fields.time()?;
        fields.expect(b" for=")?;
        let ttl = Duration::from_millis(fields.number()?);
        fields.expect(b"ms by=")?;
        let (key, holder) = KeyTag::split(fields.holder()?);
        fields.expect(b" codec=")?;
        let content = Content::read(fields.rest_of_line()?)?;
        let result = first.len() - fields.remaining();
        let fits = match content {
            Content::Unreadable { .. } | Content::Sealed { .. } | Content::Result { .. } => {
                state == RecordState::Done
            }
            _ => result == bytes.len(),
        };
        fits.then_some(Self {
            state,
            since,
            key,
            holder,
            payload,
            ttl,
            content,
            result,
            bytes,
        })
    }

    /// Whether this may be a record of `key`. Records of earlier versions do not say it.
    pub(crate) fn may_be_of(&self, key: &str) -> bool {
        self.key.is_none_or(|tag| tag == KeyTag::for_key(key))
    }

    /// The process that wrote the record, as `host:pid`.
    pub(crate) fn holder(&self) -> &'a str {
        // Only ASCII characters are read.
        str::from_utf8(self.holder).unwrap_or_default()
    }

    /// Whether the record has another payload. If either side has no payload, they do not differ.
    pub(crate) fn differs_from(&self, payload: Option<&Fingerprint>) -> bool {
        match (self.payload, payload) {
            (Some(one), Some(other)) => one != hex::write(other.as_bytes(), &mut [0; 64]),
            _ => false,
        }
    }

    /// Whether the call ended with an error that is stored for its duplicates.
    pub(crate) fn is_failure(&self) -> bool {
        match self.content {
            Content::Unreadable { failure }
            | Content::Sealed { failure, .. }
            | Content::Result { failure, .. } => failure,
            _ => false,
        }
    }

    /// Whether the call has ended, and its outcome is unknown.
    pub(crate) fn is_marked(&self) -> bool {
        self.state == RecordState::Running && self.content == Content::Unencodable
    }

    /// Whether these may be the bytes of a claim. Unlike [`read`](Self::read), this reads only their beginning.
    pub(crate) fn may_be_claim(bytes: &[u8]) -> bool {
        bytes.starts_with(b"idem1 R ")
    }

    /// Whether this is a claim that is older than the time it asked for, so it was renewed, or is kept.
    pub(crate) fn is_older_claim_than_its_time(&self, now: SystemTime) -> bool {
        self.is_unmarked_claim() && self.age(now) > self.ttl
    }

    /// Whether this is a claim that lives for `remaining`, and a renewal would not give it so much time: it is kept for the whole
    /// `ttl`, because the store had no room for the end of its call. `slack` is how much longer a record may live in its store.
    pub(crate) fn is_kept_claim(&self, remaining: Option<Duration>, slack: Duration) -> bool {
        let mut longest = self.ttl.saturating_add(CLOCK_STEP);
        if !slack.is_zero() {
            longest = longest.saturating_add(slack).saturating_add(ELECTION);
        }
        self.is_unmarked_claim() && remaining.is_some_and(|remaining| remaining > longest)
    }

    fn is_unmarked_claim(&self) -> bool {
        self.state == RecordState::Running && self.content == Content::Nothing
    }

    /// Whether the record may have a response of HTTP.
    pub(crate) fn may_be_response(&self) -> bool {
        let form = match self.content {
            Content::Result { form, .. } => form,
            Content::Sealed { .. } => return true,
            _ => return false,
        };
        form == Form::Http
    }

    /// What the record stores of the result, if it is not sealed.
    pub(crate) fn kept(&self) -> Kept {
        self.content.kept(self.bytes.slice(self.result..))
    }

    /// When the record was written, as in its line.
    pub(crate) fn since_text(&self) -> String {
        let since_1970 = self.since.duration_since(SystemTime::UNIX_EPOCH);
        let mut text: Line<32> = Line::new();
        text.push_time(since_1970.unwrap_or_default());
        String::from_utf8_lossy(text.as_ref()).into_owned()
    }

    /// The time to live of the record after it was written, and after each renewal.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How long ago the record was written, by the clock of this machine.
    pub(crate) fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.since).unwrap_or_default()
    }

    /// The time until the record expires without another renewal, if it was last written or renewed this long ago. If that is longer
    /// than its time to live, it has been renewed in the meantime: the whole time to live is returned.
    pub(crate) fn remaining_at(&self, age: Duration) -> Duration {
        self.ttl
            .checked_sub(age)
            .filter(|remaining| !remaining.is_zero())
            .unwrap_or(self.ttl)
    }
}

impl Content {
    /// Reads a codec. A later version may write other codecs.
    fn read(codec: &[u8]) -> Option<Self> {
        match codec {
            b"-" => Some(Self::Nothing),
            b"too-large" => Some(Self::TooLarge),
            b"unencodable" => Some(Self::Unencodable),
            b"" => None,
            _ => Self::result(codec)
                .or_else(|| Self::sealed(codec))
                .or_else(|| Self::unreadable(codec)),
        }
    }

    /// What is stored of the result, whose bytes are these.
    fn kept(self, bytes: Bytes) -> Kept {
        match self {
            Self::Nothing => Kept::Nothing,
            Self::TooLarge => Kept::TooLarge,
            Self::Unencodable => Kept::Unencodable,
            Self::Unreadable { .. } | Self::Sealed { .. } => Kept::Unreadable,
            Self::Result {
                form,
                failure,
                option_depth,
                schema,
            } => Kept::Result(Stored {
                failure,
                schema,
                form,
                option_depth,
                bytes,
                tail: Bytes::new(),
            }),
        }
    }

    fn result(codec: &[u8]) -> Option<Self> {
        let mut fields = FieldReader::new(codec);
        let form = Form::from_name(fields.word()?)?;
        let failure = match fields.word()? {
            b"ok" => false,
            b"err" => true,
            _ => return None,
        };
        let option_depth = u32::try_from(fields.number()?).ok()?;
        fields.expect(b":")?;
        let schema = hex::value(fields.hex(8)?.try_into().ok()?);
        (fields.remaining() == 0).then_some(Self::Result {
            form,
            failure,
            option_depth,
            schema,
        })
    }

    fn sealed(codec: &[u8]) -> Option<Self> {
        let mut fields = FieldReader::new(codec);
        fields.expect(b"sealed:")?;
        let failure = match fields.word()? {
            b"ok" => false,
            b"err" => true,
            _ => return None,
        };
        let key_id = fields.hex(8)?.try_into().ok()?;
        (fields.remaining() == 0).then_some(Self::Sealed { failure, key_id })
    }

    fn unreadable(codec: &[u8]) -> Option<Self> {
        let is_allowed = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b':' | b'-');
        let mut words = codec.split(|byte| *byte == b':');
        codec.iter().all(is_allowed).then(|| Self::Unreadable {
            failure: words.nth(1) == Some(b"err"),
        })
    }
}

pub(super) const VERSION: &str = "idem1";
/// The clock of a server may be set back by so much without making a running claim look kept.
const CLOCK_STEP: Duration = Duration::from_secs(1);
/// A store with a slack may add so much when it elects a leader: a new leader of etcd begins the leases again, and adds its
/// timeout for elections, which is a second by default.
const ELECTION: Duration = Duration::from_secs(5);
/// The line of a record is shorter than this, in bytes. The handle has its own limit for results.
pub(crate) const LONGEST_LINE: usize = 512;

#[cfg(feature = "seal")]
pub(crate) mod sealed;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests;
