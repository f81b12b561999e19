//! The middleware, against scripted answers on a paused clock, and against servers behind a proxy that loses replies.
#![allow(clippy::unwrap_used, missing_docs)]

mod bodies;
mod judge;
mod keys;
mod losses;
mod page;
mod pauses;
mod problems;
mod profiles;
mod proxy;
mod redirects;
mod script;
mod shop;
