//! The record of a call: one readable line, then the bytes of the result.
//!
//! ```text
//! idem2 R Dx4tPEtaaXiHlqW0w9Lh8A 1795253400250 33000 9f86d081..web-3:4242
//! idem2 D Dx4tPEtaaXiHlqW0w9Lh8A 1795253400250 33000 9f86d081..web-3:4242 - json:ok:0:9f86d081
//! ```
//!
//! The fields are the owner, when the record was written (in milliseconds since 1970), its time to live in milliseconds, and the check
//! of the key with the host and process that wrote it. Then the payload and the codec, unless both are `-`. Owner and payload are in
//! Base64. Before the host, a call with several keys writes [a digest of them](super::keys_digest). The line is short because stores
//! keep many: Redis rounds it up to 80, 96, 112, 128 or 160 bytes.
//!
//! The line of a running claim is written once and never changes, so it is its own compare value. In the line of a done
//! call the codec says what follows: nothing (`-`, `too-large`, `unencodable`), or a result
//! (`json:ok:0:9f86d081`: its form, whether it was an `Ok`, how many `Some` are around it, and the tag of its type).
//! A running claim with the codec `unencodable` is marked: its call has ended, and its outcome is unknown.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::key::fingerprint::Fingerprint;
use crate::key::{base64, hex};
use crate::record::call::content::Content;
use crate::record::call::parts::Parts;
pub(crate) use crate::record::call::parts::RecordState;
use crate::record::fields::FieldReader;
use crate::record::form::Form;
use crate::record::kept::{Kept, Stored};
use crate::record::key_tag::KeyTag;
use crate::record::keys_digest::KeysDigest;
use crate::record::line::{LAST_MILLI, LONGEST, Line, SHORT};
use crate::record::owner::Owner;
use crate::world::Moment;

/// What the line of a record says of its call and its claim.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    /// The digits of the key, if records of this store have them.
    pub(crate) key: Option<KeyTag>,
    /// The digest of all keys of the call, if it has several.
    pub(crate) keys: Option<KeysDigest>,
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
/// has. Its codec is `unencodable`, which says that no outcome can be written.
pub(crate) fn marked(head: &Head<'_>) -> Bytes {
    write(RecordState::Running, head, &Kept::Unknown)
}

/// Writes the record of a call that is done, with its stored result if there is one.
pub(crate) fn done(head: &Head<'_>, kept: &Kept) -> Bytes {
    write(RecordState::Done, head, kept)
}

fn write(state: RecordState, head: &Head<'_>, kept: &Kept) -> Bytes {
    if let Kept::Result(stored) = kept {
        let line: Line<LONGEST> = kept_line(state, head, kept);
        return line.with_result(&stored.bytes, &stored.tail);
    }
    let short: Line<SHORT> = kept_line(state, head, kept);
    short.into_record().unwrap_or_else(|| {
        let line: Line<LONGEST> = kept_line(state, head, kept);
        line.with_result(&[], &[])
    })
}

fn kept_line<const N: usize>(state: RecordState, head: &Head<'_>, kept: &Kept) -> Line<N> {
    let is_kept = *kept != Kept::Nothing;
    line(
        state,
        head,
        is_kept.then_some(|line: &mut _| push_kept(line, kept)),
    )
}

fn line<const N: usize>(
    state: RecordState,
    head: &Head<'_>,
    codec: Option<impl FnOnce(&mut Line<N>)>,
) -> Line<N> {
    let mut line = Line::new();
    line.push(match state {
        RecordState::Running => b"idem2 R ",
        RecordState::Done => b"idem2 D ",
    });
    line.push(base64::write(&head.owner.bytes(), &mut [0; 22]));
    line.push(b" ");
    line.push_number(millis(head.now.since_1970).min(LAST_MILLI));
    line.push(b" ");
    line.push_number(millis(head.ttl));
    line.push(b" ");
    line.push_holder(head.key, head.keys, head.now.process);
    if head.payload.is_some() || codec.is_some() {
        line.push(b" ");
        match head.payload {
            Some(payload) => line.push(base64::write(payload.as_bytes(), &mut [0; 43])),
            None => line.push(b"-"),
        }
        line.push(b" ");
        match codec {
            Some(push_codec) => push_codec(&mut line),
            None => line.push(b"-"),
        }
    }
    line.push(b"\n");
    line
}

fn millis(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1000);
    seconds.saturating_add(duration.subsec_millis().into())
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
    line: RecordLine,
    bytes: &'a Bytes,
}

/// What the line of a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordLine {
    pub(crate) state: RecordState,
    pub(crate) since: SystemTime,
    key: Option<KeyTag>,
    keys: Option<KeysDigest>,
    holder: Field,
    payload: Option<Field>,
    ttl: Duration,
    content: Content,
    /// Where the result begins.
    result: usize,
}

impl<'a> Record<'a> {
    /// Reads a record; `None` if another version or another program wrote it.
    ///
    /// Each field must have exactly the form that this version writes. So an attacker who can write to the store cannot
    /// inject text into the logs, terminals and errors that show the fields.
    pub(crate) fn read(bytes: &'a Bytes) -> Option<Self> {
        let first = &bytes[..bytes.len().min(LONGEST_LINE)];
        let mut fields = FieldReader::new(first);
        let Parts {
            state,
            since,
            key,
            keys,
            holder,
            payload,
            ttl,
            content,
        } = Parts::read(&mut fields)?;
        let result = first.len() - fields.remaining();
        let fits = match content {
            Content::Unreadable { .. } | Content::Sealed { .. } | Content::Result { .. } => {
                state == RecordState::Done
            }
            _ => result == bytes.len(),
        };
        if !fits {
            return None;
        }
        let payload = match payload {
            Some(payload) => Some(Field::of(first, payload)?),
            None => None,
        };
        let line = RecordLine {
            state,
            since,
            key,
            keys,
            holder: Field::of(first, holder)?,
            payload,
            ttl,
            content,
            result,
        };
        Some(Self { line, bytes })
    }

    /// The record in these bytes, whose line was read before.
    pub(crate) fn with_line(line: RecordLine, bytes: &'a Bytes) -> Self {
        Self { line, bytes }
    }

    pub(crate) fn line(&self) -> RecordLine {
        self.line
    }

    /// Whether this may be a record of the key with these digits. Records of earlier versions do not say it.
    pub(crate) fn may_be_of(&self, tag: impl FnOnce() -> KeyTag) -> bool {
        self.key.is_none_or(|own| own == tag())
    }

    /// The digest of all keys of its call; `None` if the call has one key, or an earlier version made it.
    pub(crate) fn keys(&self) -> Option<KeysDigest> {
        self.keys
    }

    /// The process that wrote the record, as `host:pid`.
    pub(crate) fn holder(&self) -> &'a str {
        // Only ASCII characters are read.
        str::from_utf8(self.holder.in_bytes(self.bytes)).unwrap_or_default()
    }

    fn payload(&self) -> Option<&'a [u8]> {
        self.payload.map(|payload| payload.in_bytes(self.bytes))
    }

    /// Whether the record has another payload. If either side has no payload, they do not differ.
    pub(crate) fn differs_from(&self, payload: Option<&Fingerprint>) -> bool {
        match (self.payload(), payload) {
            // In hexadecimal digits by an earlier version.
            (Some(one), Some(other)) if matches!(one.len(), 32 | 64) => {
                one != hex::write(other.as_bytes(), &mut [0; 64])
            }
            (Some(one), Some(other)) => one != base64::write(other.as_bytes(), &mut [0; 43]),
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
        bytes.starts_with(b"idem2 R ") || bytes.starts_with(b"idem1 R ")
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

    /// When the record was written, in UTC.
    pub(crate) fn since_text(&self) -> String {
        humantime::format_rfc3339_millis(self.since).to_string()
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

/// Where a field is in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    start: u16,
    end: u16,
}

impl Field {
    /// Where `field` is in the line that begins at the first of these bytes.
    fn of(bytes: &[u8], field: &[u8]) -> Option<Self> {
        let start = field.as_ptr().addr() - bytes.as_ptr().addr();
        Some(Self {
            start: start.try_into().ok()?,
            end: (start + field.len()).try_into().ok()?,
        })
    }

    fn in_bytes(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start.into()..self.end.into()]
    }
}

impl Deref for Record<'_> {
    type Target = RecordLine;

    fn deref(&self) -> &RecordLine {
        &self.line
    }
}

/// The clock of a server may be set back by so much without making a running claim look kept.
const CLOCK_STEP: Duration = Duration::from_secs(1);
/// A store with a slack may add so much when it elects a leader: a new leader of etcd begins the leases again, and adds its
/// timeout for elections, which is a second by default.
const ELECTION: Duration = Duration::from_secs(5);
/// The line of a record is shorter than this, in bytes. The handle has its own limit for results.
pub(crate) const LONGEST_LINE: usize = 512;

mod content;
mod parts;
#[cfg(feature = "seal")]
pub(crate) mod sealed;

#[cfg(test)]
mod forms;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests;
