//! The command on real servers: it finds a stuck key, explains it and frees it.

#![allow(clippy::unwrap_used)]

mod audit;
mod bench;
mod help;
mod kept;
mod ls;
mod probe;
mod progress;
mod recording;
mod settings;
mod stores;
mod stuck;
mod support;
