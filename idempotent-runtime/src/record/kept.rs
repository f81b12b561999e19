//! What a record keeps of the result of its call.

use bytes::Bytes;

use crate::record::form::Form;

/// What a record keeps of its call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nothing: the call is not over, or was not asked to.
    Nothing,
    /// Nothing, because it was larger than the handle allows.
    TooLarge,
    /// Nothing, because the codec cannot write it.
    Unencodable,
    /// Something that this version cannot read.
    Unreadable,
    /// The result.
    Result(Stored),
}

impl Kept {
    /// Why a result is not kept that was to be.
    pub(crate) fn why_not(&self) -> Option<&'static str> {
        match self {
            Self::TooLarge => Some("it is larger than the handle allows"),
            Self::Unencodable => Some("the codec cannot write it"),
            Self::Nothing | Self::Unreadable | Self::Result(_) => None,
        }
    }
}

/// A result as it stands in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// It is the error of a `Result`.
    pub(crate) failure: bool,
    pub(crate) schema: u32,
    pub(crate) form: Form,
    pub(crate) somes: u32,
    pub(crate) bytes: Bytes,
}
