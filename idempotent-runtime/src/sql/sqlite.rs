//! The implementation for SQLite.

mod batch;
mod connect;
mod counting;
mod doctor;
mod lock;
mod records;
mod rows;
mod schema;
mod syntax;
