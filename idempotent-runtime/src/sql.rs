//! Exactly-once building blocks for databases, in the caller's transaction.
//!
//! A lock prevents two runs at the same time. Only the database can prevent a second run later: it commits the row that
//! proves the first run together with the work.

mod adapters;
mod batching;
pub(crate) mod block;
mod database;
pub mod driver;
pub(crate) mod failure;
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod store;

/// The version of sqlx that this module uses. Take the types of sqlx from here, so that the versions agree.
pub use ::sqlx;

#[cfg(any(feature = "deadpool-postgres", feature = "diesel-async-deadpool"))]
pub use self::adapters::deadpool::DeadpoolTransaction;
pub use self::block::duplicate::duplicate_of;
pub use self::block::insert::{InsertOnce, Insertion, insert_once};
pub use self::block::lock::waiting::Holder;
pub use self::block::lock::{Lock, LockGuard};
pub use self::block::retry::{Retry, retry};
pub use self::block::transition::{Transition, TransitionUpdate, transition};
pub use self::block::version::{Versioned, VersionedUpdate, versioned_update};
pub use self::database::Database;
pub use self::database::connection::AsConnection;
pub use self::failure::causes::{Causes, TxOutcome};
pub use self::failure::retryable::{is_outcome_unknown, is_retryable, is_retryable_with_row};
pub use self::migrate::{Migration, migrate, migrations, schema};
