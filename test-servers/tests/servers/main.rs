//! Tests of the private servers.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod databases;
mod redis;
