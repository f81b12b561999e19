//! The operations of a handle for operators: `doctor`, `list`, `peek` and `forget`.

pub(crate) mod doctor;
pub(crate) mod listing;
pub(crate) mod peek;
