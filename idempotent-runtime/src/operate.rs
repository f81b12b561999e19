//! What operators ask of a handle.

pub(crate) mod doctor;
pub(crate) mod peek;
