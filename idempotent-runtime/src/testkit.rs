//! Tools for tests: stores that fail on purpose, stores that count operations, and the suite that every
//! [`Store`](crate::Store) must pass. The crate `idempotence-test-servers` starts private Redis, PostgreSQL and MariaDB
//! servers.
//!
//! This crate reads the time from [`tokio::time`], so tests without real servers can control it with
//! `tokio::time::pause()` or `#[tokio::test(start_paused = true)]`.

pub mod conformance;
mod counting;
mod faulty;
mod op;

pub use self::counting::{CountingStore, Counts};
pub use self::faulty::{Fault, FaultyStore};
pub use self::op::Op;
#[cfg(feature = "redis")]
#[doc(hidden)]
pub use crate::batch::count::{BatchCounts, batch_counts};
#[doc(inline)]
pub use crate::conformance;
