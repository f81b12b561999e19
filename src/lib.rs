// The first definition of a link counts: these lead to other pages here than on the README's own.
//! [guarantees]: guarantees
//! [sql]: sql
//! [specification]: fingerprint
//! [MIT]: https://spdx.org/licenses/MIT.html
//! [Apache-2.0]: https://spdx.org/licenses/Apache-2.0.html
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc = include_str!("../docs/attribute.md")]
pub use idempotent_macro::idempotent;

pub use idempotent_runtime::{
    Builder, ClientAction, Codec, Diagnosis, Digest, Duplicate, DuplicateState, Durability,
    EndpointInfo, Error, Event, EventKind, Failure, GuardedCall, Idempotency, KeyPart, Lang,
    MemoryStore, Observer, OnCancel, OnLeaseLost, OnStoreError, Once, Origin, Outcome, Peek,
    Release, Renew, Replay, Setting, Settings, SetupError, Store, StoreError, StoreErrorKind,
    endpoints, store,
};

#[doc = include_str!("../docs/fingerprint.md")]
pub mod fingerprint {
    pub use idempotent_runtime::fingerprint::*;
}

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[cfg(feature = "axum")]
pub use idempotent_runtime::axum;

#[cfg(feature = "mysql")]
pub use idempotent_runtime::MySqlStore;
#[cfg(feature = "postgres")]
pub use idempotent_runtime::PostgresStore;
#[cfg(feature = "sqlite")]
pub use idempotent_runtime::SqliteStore;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use idempotent_runtime::{PurgeTask, SqlStore};

#[cfg(feature = "redis")]
pub use idempotent_runtime::{RedisConnection, RedisOptions, RedisStore};

// The page tells of all databases, and its examples are of one: without all of them they would not compile.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[cfg_attr(
    all(feature = "mysql", feature = "postgres", feature = "sqlite"),
    doc = include_str!("../docs/sql.md")
)]
#[cfg_attr(
    not(all(feature = "mysql", feature = "postgres", feature = "sqlite")),
    doc = "For databases: what makes a thing happen once by the database's own means."
)]
pub mod sql {
    pub use idempotent_runtime::sql::*;
}

#[cfg(feature = "testkit")]
pub use idempotent_runtime::testkit;

#[cfg(feature = "tonic")]
pub use idempotent_runtime::tonic;

#[doc(hidden)]
pub use idempotent_runtime::private as __private;
