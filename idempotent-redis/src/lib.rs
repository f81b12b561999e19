//! The Redis store of the crate [`idempotence`](https://docs.rs/idempotence). Depend on that crate instead, with its feature `redis`.
//!
//! The link of this crate into a program registers its URLs.
//!
//! A folder uses only folders before it in this list: `script`, `client`, `send`, `record`, `bloom`, `doctor`.

mod bloom;
mod checks;
mod client;
mod doctor;
mod mutation;
mod options;
mod record;
mod script;
mod send;
mod store;

use std::sync::Arc;

use idempotent_runtime::store::{UrlScheme, register_url_scheme};

/// The client library of the store, in the version that the store uses.
pub use ::redis;

pub use self::client::connection::RedisConnection;
pub use self::options::RedisOptions;
pub use self::store::RedisStore;

const SCHEMES: &[&str] = &[
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis-cluster",
    "rediss-cluster",
    "redis-sentinel",
    "rediss-sentinel",
    "redis+unix",
    "valkey+unix",
    "unix",
];

register_url_scheme!(UrlScheme::built_in("Redis", SCHEMES, |url| {
    Box::pin(async move { Ok(Arc::new(RedisStore::connect(&url).await?) as _) })
}));
