//! diesel-async, on each database.

mod mariadb;
mod postgres;
