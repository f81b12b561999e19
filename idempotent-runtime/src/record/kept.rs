//! The part of a record about the result of its call.

use bytes::Bytes;

use crate::record::form::Form;

/// The stored result of a call, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Nothing: the call has not ended, or its result is not stored for duplicates.
    Nothing,
    /// Nothing, because the result was larger than the handle allows.
    TooLarge,
    /// Nothing, because the codec cannot write the result.
    Unencodable,
    /// Nothing, because nobody knows whether the body did its work: the option `hold_err`.
    Unknown,
    /// A result that this version cannot read.
    Unreadable,
    /// The result.
    Result(Stored),
}

impl Kept {
    /// Why a result that should be stored was not stored.
    pub(crate) fn why_not(&self) -> Option<&'static str> {
        match self {
            Self::TooLarge => Some("it is larger than the handle allows"),
            Self::Unencodable => Some("the codec cannot write it"),
            Self::Result(stored) if stored.form == Form::HttpTombstone => {
                Some("it is a stream, or larger than the layer or the handle allows")
            }
            Self::Nothing | Self::Unknown | Self::Unreadable | Self::Result(_) => None,
        }
    }

    /// Whether the end of the call keeps its key although the body did not succeed.
    pub(crate) fn keeps_key(&self) -> bool {
        matches!(self, Self::Unknown | Self::Result(_))
    }
}

/// A result in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Whether the result is the error of a `Result`.
    pub failure: bool,
    /// The tag of the type, or the version of the form.
    pub schema: u32,
    /// How the bytes are to be read.
    pub form: Form,
    /// How many `Some` are around the value.
    pub option_depth: u32,
    /// The result.
    pub bytes: Bytes,
    /// The end of the bytes, if it is elsewhere in memory: the body of a response. A result that was read has its bytes in one
    /// place.
    pub tail: Bytes,
}
