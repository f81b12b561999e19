#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Of any number of equal calls, one runs.
pub use idempotent_macro::idempotent;

pub use idempotent_runtime::{
    Builder, Digest, Duplicate, DuplicateState, Error, Failure, Idempotency, KeyPart, MemoryStore,
    Outcome, SetupError, Store, StoreError, StoreErrorKind, fingerprint, store,
};

#[cfg(feature = "redis")]
pub use idempotent_runtime::{RedisConnection, RedisOptions, RedisStore};

#[cfg(feature = "testkit")]
pub use idempotent_runtime::testkit;

#[doc(hidden)]
pub use idempotent_runtime::private as __private;
