//! What users call by name: each block works in the caller's database and knows no handle.

mod begin;
pub(super) mod duplicate;
pub(super) mod insert;
pub(super) mod lock;
pub(crate) mod retry;
mod row;
mod statement;
pub(super) mod transition;
mod unique;
pub(super) mod version;
