//! Records in Redis, or in a server that speaks its protocol, such as Valkey.

mod batching;
mod checks;
mod cluster;
mod connection;
mod counting;
mod doctor;
mod executor;
mod failure;
mod filters;
mod info;
mod lanes;
mod large;
mod link;
mod listener;
mod options;
mod oversize;
mod probe;
mod reason;
mod record_scripts;
mod records;
mod removal;
mod replicas;
mod ring;
mod script;
#[cfg(test)]
mod scripted;
mod sentinel;
mod sets;
mod store;
mod tls;
mod topology;
mod url;

/// The client library of the store, in the version that the store uses.
pub use ::redis;

pub use self::connection::RedisConnection;
pub use self::options::RedisOptions;
pub use self::store::RedisStore;
