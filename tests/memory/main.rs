//! The protocol, the store in memory, the test kit and the fingerprint: no server, and the clock is paused.
#![allow(clippy::unwrap_used, missing_docs)]

mod fingerprint;
mod protocol;
mod store;
mod testkit;
mod wrap;
