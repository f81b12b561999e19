//! Transitions, versions and unique indexes, on real databases.

mod databases;
mod derived;
mod inserts;
mod mariadb;
mod names;
mod postgres;
mod sqlite;
mod states;
mod status;
mod tables;
mod transitions;
mod versions;
