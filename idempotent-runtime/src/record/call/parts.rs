//! What the line of a record says, in the form of this version or of builds before the first release.
//!
//! ```text
//! idem2 R Dx4tPEtaaXiHlqW0w9Lh8A 1795253400250 33000 9f86d081..web-3:4242
//! idem1 R owner=0f1e… payload=- since=2026-11-21T09:30:00.250Z for=33000ms by=9f86d081..web-3:4242 codec=-
//! ```

use std::time::{Duration, SystemTime};

use super::content::Content;
use crate::record::fields::FieldReader;
use crate::record::key_tag::KeyTag;
use crate::record::keys_digest::KeysDigest;
use crate::record::line::LAST_MILLI;

/// Whether the call is running or done, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordState {
    Running,
    Done,
}

/// The fields of a line.
pub(super) struct Parts<'a> {
    pub(super) state: RecordState,
    pub(super) since: SystemTime,
    pub(super) key: Option<KeyTag>,
    pub(super) keys: Option<KeysDigest>,
    pub(super) holder: &'a [u8],
    pub(super) payload: Option<&'a [u8]>,
    pub(super) ttl: Duration,
    pub(super) content: Content,
}

impl<'a> Parts<'a> {
    /// Reads the line; `None` if another version or another program wrote it.
    pub(super) fn read(fields: &mut FieldReader<'a>) -> Option<Self> {
        fields.expect(b"idem")?;
        match fields.byte()? {
            b'2' => Self::read_short(fields),
            b'1' => Self::read_named(fields),
            _ => None,
        }
    }

    fn read_short(fields: &mut FieldReader<'a>) -> Option<Self> {
        let state = RecordState::read(fields)?;
        fields.expect(b" ")?;
        fields.base64(22)?;
        fields.expect(b" ")?;
        let since = fields.number().filter(|since| *since <= LAST_MILLI)?;
        fields.expect(b" ")?;
        let ttl = Duration::from_millis(fields.number()?);
        fields.expect(b" ")?;
        let (key, holder) = KeyTag::split(fields.holder()?);
        let (keys, holder) = KeysDigest::split(holder);
        let (mut payload, mut content) = (None, Content::Nothing);
        match fields.byte()? {
            b'\n' => {}
            b' ' => {
                payload = fields.payload()?;
                fields.expect(b" ")?;
                content = Content::read(fields.rest_of_line()?)?;
                if payload.is_none() && content == Content::Nothing {
                    return None;
                }
            }
            _ => return None,
        }
        Some(Self {
            state,
            since: SystemTime::UNIX_EPOCH + Duration::from_millis(since),
            key,
            keys,
            holder,
            payload,
            ttl,
            content,
        })
    }

    fn read_named(fields: &mut FieldReader<'a>) -> Option<Self> {
        let state = RecordState::read(fields)?;
        fields.expect(b" owner=")?;
        fields.hex(32)?;
        fields.expect(b" payload=")?;
        let payload = fields.payload_in_hex()?;
        fields.expect(b" since=")?;
        let since = fields.time()?;
        fields.expect(b" for=")?;
        let ttl = Duration::from_millis(fields.number()?);
        fields.expect(b"ms by=")?;
        let (key, holder) = KeyTag::split(fields.holder()?);
        fields.expect(b" codec=")?;
        let content = Content::read(fields.rest_of_line()?)?;
        Some(Self {
            state,
            since,
            key,
            keys: None,
            holder,
            payload,
            ttl,
            content,
        })
    }
}

impl RecordState {
    fn read(fields: &mut FieldReader<'_>) -> Option<Self> {
        fields.expect(b" ")?;
        match fields.byte()? {
            b'R' => Some(Self::Running),
            b'D' => Some(Self::Done),
            _ => None,
        }
    }
}
