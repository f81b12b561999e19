#![doc = include_str!("links.md")]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Of several equal calls of an `async fn` only one runs, on one machine or on many that share a store.
///
#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/attribute.md")]
pub use idempotent_macro::idempotent;

pub use idempotent_runtime::{
    Added, AnyIntent, Attempt, Bloom, BloomBuilder, BloomStats, Builder, ClientAction, Codec,
    Counter, CounterBuilder, Diagnosis, Digest, DrainError, Duplicate, DuplicateState, Durability,
    EndpointInfo, Endpoints, Error, Event, EventKind, Failure, Fenced, FirstTime, GuardedCall,
    Hint, Idempotency, IdempotencyContext, InvalidRequestId, KeyPart, Lang, Limited, ListedCall,
    Listing, Mechanism, MemoryStore, Observer, OnCancel, OnLeaseLost, OnStoreError, Once,
    OneIntent, Origin, Outcome, Peek, Redeemed, Release, Renew, Replay, RequestId, RunEach,
    SeenSet, SeenSetBuilder, Setting, Settings, Settle, SetupError, Store, StoreError,
    StoreErrorKind, Token, Tokens, Translation, endpoints,
};

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/fingerprint.md")]
///
#[doc = include_str!("../docs/fingerprint-vectors.md")]
pub mod fingerprint {
    pub use idempotent_runtime::fingerprint::*;
}

/// The traits that `#[idempotent]` requires of the types in a function, for the bounds of a generic function.
///
/// Each has an implementation for all types that fit.
pub mod bounds {
    pub use idempotent_runtime::private::{
        Fallible, FromError, HasFence, NamesOneIntent, Rows, TokenText, Using,
    };
}

pub mod guide;

#[cfg(feature = "http")]
#[doc(inline)]
pub use idempotent_http as http;

/// Errors, keys and results in the types of other crates.
///
/// These modules have the names of the crates that they serve. So they are not at the root, where
/// `use idempotence::*` would make `axum` and `tonic` ambiguous.
#[cfg(any(
    feature = "actix",
    feature = "axum",
    feature = "tonic",
    feature = "utoipa"
))]
pub mod integrations {
    #[cfg(feature = "actix")]
    pub use idempotent_http::integrations::actix;
    #[cfg(feature = "axum")]
    pub use idempotent_http::integrations::axum;
    #[cfg(feature = "tonic")]
    pub use idempotent_http::integrations::tonic;
    #[cfg(feature = "utoipa")]
    pub use idempotent_http::integrations::utoipa;
}

/// Rows of calls in your own `TransactWriteItems`, and the SDK.
#[cfg(feature = "dynamodb")]
pub mod dynamodb {
    pub use idempotent_dynamodb::{DynamoDbTransaction, NotCommitted, aws_sdk_dynamodb};
}

#[cfg(feature = "dynamodb")]
pub use idempotent_dynamodb::DynamoDbStore;
#[cfg(feature = "etcd")]
pub use idempotent_etcd::EtcdStore;

#[cfg(feature = "order-numbers")]
pub use idempotent_runtime::{OrderNumber, OrderNumbers, OrderNumbersBuilder, Placed};

#[cfg(feature = "redis")]
pub use idempotent_redis::{RedisConnection, RedisOptions, RedisStore};

#[cfg(feature = "mysql")]
pub use idempotent_sql::MySqlStore;
#[cfg(feature = "postgres")]
pub use idempotent_sql::PostgresStore;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use idempotent_sql::SqlStore;
#[cfg(feature = "sqlite")]
pub use idempotent_sql::SqliteStore;

#[cfg(feature = "seal")]
pub use idempotent_runtime::{SealKey, SealKeys};

// The page needs all databases: its examples do not compile without their features.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("links.md")]
#[cfg_attr(
    all(feature = "mysql", feature = "postgres", feature = "sqlite"),
    doc = include_str!("../docs/guide/sql.md")
)]
#[cfg_attr(
    not(all(feature = "mysql", feature = "postgres", feature = "sqlite")),
    doc = "Guards that use only the database: locks, rows in a transaction, retries."
)]
pub mod sql {
    pub use idempotent_sql::sql::*;
}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/store.md")]
pub mod store {
    pub use idempotent_runtime::store::*;

    /// Records in Redis, or in a server that speaks its protocol, such as Valkey, and the client library of the store.
    #[cfg(feature = "redis")]
    pub mod redis {
        pub use idempotent_redis::{RedisConnection, RedisOptions, RedisStore, redis};
    }
}

#[cfg(feature = "testkit")]
#[doc(inline)]
pub use idempotent_testkit as testkit;

#[doc(hidden)]
pub use idempotent_runtime::private as __private;
