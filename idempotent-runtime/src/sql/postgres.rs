//! The dedup row in PostgreSQL, and the address of the database.

mod address;
pub(super) mod rows;
