//! Exactly-once building blocks for databases, in the caller's transaction.
//!
//! A lock prevents two runs at the same time. Only the database can prevent a second run later: it commits the row that
//! proves the first run together with the work.

mod adapters;
mod batching;
pub(crate) mod causes;
mod checkout;
mod connection;
mod database;
pub mod driver;
mod duplicate;
mod failure;
mod insert;
mod lock;
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod retry;
mod retryable;
mod row;
mod rows;
mod session;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statement;
pub(crate) mod store;
mod transition;
mod unique;
mod url;
mod version;

/// The version of sqlx that this module uses. Take the types of sqlx from here, so that the versions agree.
pub use ::sqlx;

pub use self::causes::{Causes, TxOutcome};
pub use self::connection::{AsConnection, AsPool};
pub use self::database::Database;
pub use self::duplicate::duplicate_of;
pub use self::insert::{InsertOnce, Insertion, insert_once};
pub use self::lock::waiting::Holder;
pub use self::lock::{Lock, LockGuard};
pub use self::migrate::{Migration, migrate, migrations, schema};
pub use self::retry::{Retry, retry};
pub use self::retryable::{is_outcome_unknown, is_retryable, is_retryable_with_row};
pub use self::transition::{Transition, TransitionUpdate, transition};
pub use self::version::{Versioned, VersionedUpdate, versioned_update};
