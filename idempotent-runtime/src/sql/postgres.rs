//! What is said to PostgreSQL.

mod connect;
mod counting;
mod doctor;
mod lock;
mod records;
mod rows;
mod schema;
mod syntax;
