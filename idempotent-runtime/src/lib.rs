//! What runs under the [`idempotence`](https://docs.rs/idempotence) crate: depend on that one.

#[cfg(feature = "axum")]
pub mod axum;
pub mod fingerprint;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub mod sql;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;
#[cfg(feature = "tonic")]
pub mod tonic;

mod call;
#[cfg(test)]
mod cases;
mod claiming;
mod client;
mod codec;
mod doctor;
mod drain;
mod endpoint;
mod endpoints;
mod error;
mod finish;
mod flight;
mod guarded_call;
mod held;
mod idempotency;
mod in_tx;
mod lease;
mod observe;
mod once;
mod outcome;
mod pauses;
mod peek;
mod policy;
mod record;
mod replay;
mod settings;
mod settle;
#[cfg(test)]
mod simulation;
mod sync;
mod text;
mod tries;
mod wait;
mod world;

#[doc(hidden)]
pub mod private;

pub use client::ClientAction;
pub use codec::Codec;
pub use doctor::Diagnosis;
pub use endpoints::{EndpointInfo, endpoints};
pub use error::{Duplicate, DuplicateState, Error, Failure, SetupError};
pub use fingerprint::{Digest, KeyPart};
pub use guarded_call::GuardedCall;
pub use idempotency::{Builder, Idempotency};
pub use observe::{Event, EventKind, Observer};
pub use once::Once;
pub use outcome::Outcome;
pub use peek::Peek;
pub use policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};
pub use replay::Replay;
pub use settings::{Origin, Setting, Settings};
pub use store::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use store::redis::{RedisConnection, RedisOptions, RedisStore};
#[cfg(feature = "mysql")]
pub use store::sql::MySqlStore;
#[cfg(feature = "postgres")]
pub use store::sql::PostgresStore;
#[cfg(feature = "sqlite")]
pub use store::sql::SqliteStore;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use store::sql::{PurgeTask, SqlStore};
pub use store::{Durability, Store, StoreError, StoreErrorKind};
pub use text::Lang;
