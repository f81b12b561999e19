//! Transactions of databases: what the engine needs of one, the libraries that have one, and the row that makes a call unique.
//!
//! The stores and the building blocks are in the crate `idempotent-sql`.

mod adapters;
pub(crate) mod block;
pub(crate) mod database;
pub mod driver;
pub(crate) mod failure;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// The version of sqlx that this module uses. Take the types of sqlx from here, so that the versions agree.
pub use ::sqlx;

#[cfg(any(feature = "deadpool-postgres", feature = "diesel-async-deadpool"))]
pub use self::adapters::deadpool::DeadpoolTransaction;
pub use self::block::retry::Retry;
pub use self::database::SqlxDatabase;
pub use self::database::connection::AsConnection;
pub use self::failure::causes::{Causes, TxOutcome};
pub use self::failure::retryable::{is_outcome_unknown, is_retryable, is_retryable_with_row};
