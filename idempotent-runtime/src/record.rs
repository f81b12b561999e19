//! The bytes that stores hold. They are frozen: every version reads what an earlier one wrote.

pub(crate) mod call;
pub(crate) mod count;
pub(crate) mod form;
pub(crate) mod kept;
pub(crate) mod owner;
pub(crate) mod shape;
pub(crate) mod token;
