//! Records in Redis, or in a server that speaks its protocol, such as Valkey.

mod batching;
mod checks;
mod cluster;
mod commands;
mod connection;
mod counting;
mod doctor;
mod executor;
mod failure;
mod fencing;
mod filters;
mod gathering;
mod info;
mod lanes;
mod large;
mod link;
mod listener;
mod listing;
mod masters;
mod nodes;
mod options;
mod oversize;
mod probe;
mod reason;
mod record_scripts;
mod records;
mod removal;
mod replicas;
mod replicated;
mod ring;
mod script;
#[cfg(test)]
mod scripted;
mod sentinel;
mod slot;
mod slots;
mod store;
mod tls;
mod topology;
mod unusable;
mod url;

/// The client library of the store, in the version that the store uses.
pub use ::redis;

pub use self::connection::RedisConnection;
pub use self::options::RedisOptions;
pub use self::store::RedisStore;
