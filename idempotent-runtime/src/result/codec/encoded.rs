//! A value as a codec has written it, and how deep it may be nested.

use crate::record::form::Form;

/// A result as its record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) form: Form,
    /// How many `Some` stood around it.
    pub(crate) somes: u32,
    pub(crate) bytes: Vec<u8>,
}

/// How deep a value may be nested. It is what `serde_json` reads, and takes no thread's stack.
pub(super) const LEVELS: u32 = 127;
/// How many options and newtypes may stand within each other, whatever lies between them. The codecs do not count these:
/// two for each of their own levels, and two at the top.
pub(super) const MOST_WITHIN: u32 = 2 * (LEVELS + 1);
