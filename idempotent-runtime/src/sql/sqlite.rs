//! What is said to SQLite.

mod records;
mod rows;
