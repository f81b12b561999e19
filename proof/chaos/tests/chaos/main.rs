//! Chaos and storms of HTTP requests, each within two minutes. The long modes are in the README.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod history;
mod http;
