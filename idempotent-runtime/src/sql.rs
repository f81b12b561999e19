//! Calls in a transaction of a database: the row that makes a call unique, and transactions that run again.
//!
//! The transactions themselves are in the crate `idempotent-driver`, the stores and the building blocks in `idempotent-sql`.

pub(crate) mod failure;
mod outcome;
pub(crate) mod retry;
mod retryable;
pub(crate) mod rows;
pub(crate) mod time;

pub use idempotent_driver::sql::*;

pub use self::outcome::TxOutcome;
pub use self::retry::Retry;
pub use self::retryable::{is_outcome_unknown, is_retryable, is_retryable_with_row};
