//! What runs under the [`idempotence`](https://docs.rs/idempotence) crate: depend on that one.

#[cfg(feature = "axum")]
pub mod axum;
pub mod fingerprint;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub mod sql;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;
#[cfg(feature = "tonic")]
pub mod tonic;

mod bloom;
mod call;
#[cfg(test)]
mod cases;
mod claiming;
mod client;
mod codec;
mod counter;
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
mod key;
mod key_parts;
mod lease;
#[cfg(feature = "order-numbers")]
mod numbers;
mod observe;
mod once;
mod outcome;
mod pauses;
mod peek;
mod policy;
mod record;
mod redeeming;
mod replay;
mod request_id;
#[cfg(test)]
mod responses;
mod seen;
mod settings;
mod settle;
#[cfg(test)]
mod simulation;
mod sync;
mod text;
mod tokens;
mod tries;
mod wait;
mod world;

#[doc(hidden)]
pub mod private;

pub use bloom::Bloom;
pub use client::ClientAction;
pub use codec::Codec;
pub use counter::{Attempt, Counter};
pub use doctor::Diagnosis;
pub use endpoints::{EndpointInfo, Endpoints, endpoints};
pub use error::{Duplicate, DuplicateState, Error, Failure, Limited, SetupError};
pub use fingerprint::{Digest, KeyPart};
pub use guarded_call::GuardedCall;
pub use idempotency::{Builder, Idempotency};
#[cfg(feature = "order-numbers")]
pub use numbers::{OrderNumber, OrderNumbers, OrderNumbersBuilder, Placed};
pub use observe::{Event, EventKind, Observer};
pub use once::Once;
pub use outcome::Outcome;
pub use peek::Peek;
pub use policy::{OnCancel, OnLeaseLost, OnStoreError, Policy, Release, Renew};
#[cfg(feature = "redis")]
pub use redis::{RedisConnection, RedisOptions, RedisStore};
pub use replay::Replay;
pub use request_id::{InvalidRequestId, RequestId};
pub use seen::{Added, FirstTime, SeenSet};
pub use settings::{Origin, Setting, Settings};
#[cfg(feature = "mysql")]
pub use sql::store::MySqlStore;
#[cfg(feature = "postgres")]
pub use sql::store::PostgresStore;
#[cfg(feature = "sqlite")]
pub use sql::store::SqliteStore;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use sql::store::{PurgeTask, SqlStore};
pub use store::memory::MemoryStore;
pub use store::{Durability, Fill, Hint, Mechanism, Store, StoreError, StoreErrorKind};
pub use text::Lang;
pub use tokens::{Redeemed, Token, Tokens};
