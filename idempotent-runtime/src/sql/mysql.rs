//! The dedup row in MySQL and MariaDB, and the address of the database.

mod address;
pub(super) mod rows;
