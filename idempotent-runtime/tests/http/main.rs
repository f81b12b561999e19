//! The layer, through a listener and a client of HTTP.
#![allow(clippy::unwrap_used, missing_docs)]

mod answers;
mod checks;
mod client;
mod decisions;
mod disconnects;
mod plain_tower;
mod replays;
mod routes;
mod streams;
