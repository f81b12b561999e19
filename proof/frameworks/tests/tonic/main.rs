//! The layer in a server of tonic, called by a client of tonic.
#![allow(clippy::unwrap_used, missing_docs)]

mod bank;
mod methods;
mod refusals;
mod replays;
#[path = "../../../../examples/tonic_server/rpc.rs"]
mod rpc;
