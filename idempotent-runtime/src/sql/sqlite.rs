//! The dedup row in SQLite, and the address of the database.

pub(crate) mod address;
pub(crate) mod rows;
