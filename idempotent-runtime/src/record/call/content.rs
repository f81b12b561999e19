//! The codec in the line of a record.

use bytes::Bytes;

use crate::key::hex;
use crate::record::fields::FieldReader;
use crate::record::form::Form;
use crate::record::kept::{Kept, Stored};

/// What a record stores of the result, by the codec in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
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

impl Content {
    /// Reads a codec. A later version may write other codecs.
    pub(super) fn read(codec: &[u8]) -> Option<Self> {
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
    pub(super) fn kept(self, bytes: Bytes) -> Kept {
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

    pub(super) fn result(codec: &[u8]) -> Option<Self> {
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
