//! A value that a codec has written, and the limits of its depth.

use crate::record::form::Form;

/// A result in the form of its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) form: Form,
    /// How many `Some` were around the value.
    pub(crate) option_depth: u32,
    pub(crate) bytes: Vec<u8>,
}

/// How many levels of sequences, maps, structs and enums a value may have. It is the limit of `serde_json`, and is safe for the
/// stack of every thread.
pub(super) const LEVELS: u32 = 127;
/// How many options and newtypes may be nested in each other, because the codecs do not count these: two for each level of the
/// codec, and two at the top.
pub(super) const MOST_WITHIN: u32 = 2 * (LEVELS + 1);
