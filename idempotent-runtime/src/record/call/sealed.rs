//! The record of a call with a sealed result: a readable line, then the sealed bytes.
//!
//! ```text
//! idem2 D Dx4tPEtaaXiHlqW0w9Lh8A 1795253400250 33000 9f86d081..web-3:4242 - sealed:ok:9f86d081
//! ```
//!
//! The last word of the codec is the id of the seal key. The sealed bytes contain the codec and the bytes of the result as an
//! unsealed record has them. A version that cannot read this codec takes the result for one of a later version.

use bytes::Bytes;

use super::content::Content;
use super::{Head, LONGEST, Line, Record, RecordState, line, push_result};
use crate::record::fields::FieldReader;
use crate::record::kept::{Kept, Stored};

/// The parts of a record with a sealed result.
pub(crate) struct SealedRecord<'a> {
    /// The id of the seal key, in digits.
    pub(crate) key_id: [u8; 8],
    pub(crate) line: &'a [u8],
    /// All bytes after the line.
    pub(crate) bytes: &'a [u8],
}

/// Writes the record of a done call. `seal` gets the line of the record and the bytes to seal, of which `room` bytes at both ends
/// are for its own use; `None` if they cannot be sealed.
pub(crate) fn done(
    head: &Head<'_>,
    stored: &Stored,
    key_id: [u8; 8],
    room: (usize, usize),
    seal: impl FnOnce(&[u8], &mut [u8]) -> Option<()>,
) -> Option<Bytes> {
    let push_codec = |line: &mut Line<LONGEST>| {
        line.push(if stored.failure {
            b"sealed:err:"
        } else {
            b"sealed:ok:"
        });
        line.push(&key_id);
    };
    let line = line(RecordState::Done, head, Some(push_codec));
    let mut codec: Line<LONGEST> = Line::new();
    push_result(&mut codec, stored);
    codec.push(b"\n");
    let (line, codec) = (line.as_ref(), codec.as_ref());
    let parts = [
        line,
        &[0; 64][..room.0],
        codec,
        &stored.bytes,
        &stored.tail,
        &[0; 64][..room.1],
    ];
    let mut record = parts.concat();
    seal(line, &mut record[line.len()..])?;
    Some(Bytes::from(record))
}

/// Reads a result from its opened bytes; `None` if no version wrote them.
pub(crate) fn result(opened: &Bytes) -> Option<Stored> {
    let mut fields = FieldReader::new(opened);
    let content = Content::result(fields.rest_of_line()?)?;
    let start = opened.len() - fields.remaining();
    match content.kept(opened.slice(start..)) {
        Kept::Result(stored) => Some(stored),
        _ => None,
    }
}

impl<'a> Record<'a> {
    /// The sealed result of the record, if it has one.
    pub(crate) fn sealed(&self) -> Option<SealedRecord<'a>> {
        let Content::Sealed { key_id, .. } = self.content else {
            return None;
        };
        let (line, bytes) = self.bytes.split_at(self.result);
        Some(SealedRecord {
            key_id,
            line,
            bytes,
        })
    }
}
