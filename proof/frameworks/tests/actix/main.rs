//! The layer in actix-web and in axum: one table of cases, through listeners and a client of HTTP.
#![allow(clippy::unwrap_used, missing_docs)]

mod bodies;
mod ends;
mod errors;
mod extensions;
mod extract;
mod forms;
mod locals;
mod profiles;
mod refusals;
mod replays;
mod routes;
mod shop;
mod state;
