//! The part of an outcome that is stored for duplicates, and the outcome of a duplicate that is made from it.

pub(crate) mod body_outcome;
pub(crate) mod codec;
pub(crate) mod once;
pub(crate) mod options;
pub(crate) mod outcome;
pub(crate) mod records;
pub(crate) mod replay;
pub(crate) mod replay_mode;
