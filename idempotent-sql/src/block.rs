//! What users call by name: each block works in the caller's database and knows no handle.

pub(super) mod duplicate;
mod explained;
pub(super) mod insert;
pub(super) mod lock;
pub(super) mod retry;
mod row;
mod statement;
pub(super) mod transition;
mod unique;
pub(super) mod version;
