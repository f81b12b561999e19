//! Tools for tests: storms of equal calls, stores that fail on purpose, stores that count operations, and the suite that every
//! [`Store`](crate::Store) must pass. The crate `idempotence-test-servers` starts private Redis, PostgreSQL and MariaDB
//! servers.
//!
//! This crate reads the time from [`tokio::time`], so tests without real servers can control it with
//! `tokio::time::pause()` or `#[tokio::test(start_paused = true)]`.

pub mod conformance;
mod counting;
mod faulty;
mod op;
mod report;
mod storm;

pub use self::counting::{CountingStore, Counts};
pub use self::faulty::{Fault, FaultyStore};
pub use self::op::Op;
pub use self::report::StormReport;
pub use self::storm::{assert_ran_once, storm};
#[doc(inline)]
pub use crate::conformance;
#[doc(hidden)]
pub use crate::port::testkit::batches::*;
