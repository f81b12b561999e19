//! The SQL stores, locks and calls in the caller's transaction, on private servers and in temporary files.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[cfg(target_os = "linux")]
mod clock;
mod crash;
mod layers;
mod lock;
mod retry;
mod store;
mod tx;
