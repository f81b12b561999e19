//! Which responses are stored, and what of them.

pub(crate) mod decision;
pub(crate) mod headers;
pub(crate) mod stored;
