//! The bytes of records in stores. Their format is frozen: every version reads the records of earlier versions.

pub(crate) mod call;
pub(crate) mod count;
mod digits;
pub(crate) mod fence;
mod fields;
pub(crate) mod form;
pub(crate) mod kept;
pub(crate) mod key_tag;
pub(crate) mod keys_digest;
mod line;
pub(crate) mod owner;
#[cfg(feature = "seal")]
pub(crate) mod seal;
pub(crate) mod sealing;
pub(crate) mod shape;
pub(crate) mod steps;
pub(crate) mod token;
