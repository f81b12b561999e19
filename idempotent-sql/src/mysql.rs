//! The implementation for MySQL and MariaDB.

mod batch;
mod connect;
mod counting;
mod doctor;
mod fencing;
mod lock;
mod records;
mod schema;
mod syntax;
