//! The dedup row through each library: the file `suite.rs`, compiled with each.
#![allow(clippy::unwrap_used)]

mod deadpool;
mod diesel;
mod examples;
mod own;
mod sea_orm;
mod setting;
mod sqlx_08_connection;
mod sqlx_connection;
mod tokio_postgres;
