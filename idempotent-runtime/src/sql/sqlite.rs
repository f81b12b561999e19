//! The implementation for SQLite.

mod connect;
mod counting;
mod doctor;
mod lock;
mod records;
mod rows;
mod schema;
mod syntax;
