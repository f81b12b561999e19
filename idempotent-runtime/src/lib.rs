//! What runs under the [`idempotence`](https://docs.rs/idempotence) crate: depend on that one.

pub mod store;

mod call;
mod drain;
mod endpoint;
mod error;
pub mod fingerprint;
mod finish;
mod held;
mod idempotency;
mod lease;
mod outcome;
mod policy;
mod record;
mod settle;
#[cfg(feature = "testkit")]
pub mod testkit;
mod tries;

#[doc(hidden)]
pub mod private;

pub use error::{Duplicate, DuplicateState, Error, Failure, SetupError};
pub use fingerprint::{Digest, KeyPart};
pub use idempotency::{Builder, Idempotency};
pub use outcome::Outcome;
pub use policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::{RedisConnection, RedisOptions, RedisStore};
pub use store::{Store, StoreError, StoreErrorKind};
