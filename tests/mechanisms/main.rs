//! Tokens, counters, seen-sets, Bloom filters and order numbers, in memory, on Redis and on databases.
#![cfg(unix)]
#![allow(clippy::unwrap_used, missing_docs)]

mod bloom;
mod counter;
mod numbers;
mod seen;
mod tokens;
