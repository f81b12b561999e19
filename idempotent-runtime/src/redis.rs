//! Records in Redis, or in a server that speaks its protocol, such as Valkey.
//!
//! A folder uses only folders before it in this list: `script`, `client`, `send`, `record`, `bloom`, `doctor`.

mod bloom;
mod checks;
mod client;
mod doctor;
mod options;
mod record;
mod script;
mod send;
mod store;

/// The client library of the store, in the version that the store uses.
pub use ::redis;

pub use self::client::connection::RedisConnection;
pub use self::options::RedisOptions;
pub use self::store::RedisStore;
