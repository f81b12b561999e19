//! The layer, through a listener and a client of HTTP.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod answers;
mod checks;
mod compression;
mod conformance;
mod decisions;
mod disconnects;
mod failures;
mod holds;
mod http2;
mod in_process;
mod keys;
mod leases;
mod locals;
mod operators;
mod pages;
mod payloads;
mod plain_tower;
mod profiles;
mod refusals;
mod replays;
mod routes;
mod scopes;
mod sources;
mod storms;
mod streams;
mod vendors;
mod warp_service;
