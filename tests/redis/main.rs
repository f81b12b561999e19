//! The Redis store, on private servers.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod processes;
mod store;
