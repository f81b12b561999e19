//! The attribute, as users see it.

#![deny(warnings, clippy::pedantic)]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod also;
mod arguments;
mod begin;
mod context;
mod disabled;
mod future_size;
mod hold_err;
mod panics;
mod permits;
mod replay;
mod run_in;
mod shapes;
mod steps;
mod token;
mod tx;
mod when;
