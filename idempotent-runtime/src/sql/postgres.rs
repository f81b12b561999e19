//! What is said to PostgreSQL.

mod records;
mod rows;
