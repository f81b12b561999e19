//! The layer, through a listener and a client of HTTP.
#![allow(clippy::unwrap_used, missing_docs)]

mod answers;
mod checks;
mod client;
mod compression;
mod conformance;
mod decisions;
mod disconnects;
mod failures;
mod holds;
mod in_process;
mod keys;
mod operators;
mod payloads;
mod plain_tower;
mod replays;
mod routes;
mod scopes;
mod streams;
