//! What is kept of the outcome of a call, and how the outcome is made of it again.

pub(crate) mod codec;
pub(crate) mod end;
pub(crate) mod keep;
pub(crate) mod keeping;
pub(crate) mod once;
pub(crate) mod outcome;
pub(crate) mod replay;
