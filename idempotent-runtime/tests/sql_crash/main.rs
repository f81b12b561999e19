//! A crash at any point loses nothing: processes and servers are killed at every message and every step, and after a retry
//! there is exactly one business row.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod batches;
mod crash;
mod flow;
#[path = "../fresh/mod.rs"]
mod fresh;
mod messages;
mod process;
mod steps;
#[path = "../wire/mod.rs"]
mod wire;
