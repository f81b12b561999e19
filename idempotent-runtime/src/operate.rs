//! The operations of a handle for operators: `doctor`, `peek` and `forget`.

pub(crate) mod doctor;
pub(crate) mod peek;
