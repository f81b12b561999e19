//! The implementation for MySQL and MariaDB.

mod batch;
mod connect;
mod counting;
mod doctor;
mod lock;
mod records;
mod rows;
mod schema;
mod syntax;
