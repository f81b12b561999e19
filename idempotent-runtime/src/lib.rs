//! What runs under the [`idempotence`](https://docs.rs/idempotence) crate: depend on that one.

pub mod fingerprint;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use fingerprint::{Digest, KeyPart};
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::{RedisConnection, RedisOptions, RedisStore};
pub use store::{Store, StoreError, StoreErrorKind};
