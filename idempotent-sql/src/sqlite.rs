//! The implementation for SQLite.

mod batch;
mod connect;
mod counting;
mod doctor;
mod fencing;
mod lock;
mod records;
mod schema;
mod syntax;
