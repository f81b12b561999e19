//! Tools for tests: storms of equal calls, stores that fail on purpose, stores that count operations, and the suite that every
//! [`Store`](idempotent_runtime::Store) must pass. The crate `idempotence-test-servers` starts private Redis, PostgreSQL and
//! MariaDB servers.
//!
//! This crate reads the time from [`tokio::time`], so tests without real servers can control it with
//! `tokio::time::pause()` or `#[tokio::test(start_paused = true)]`.

pub mod conformance;
mod counting;
mod faulty;
mod op;
mod report;
mod storm;

pub use self::counting::CountingStore;
pub use self::faulty::{Fault, FaultyStore};
pub use self::op::{Counts, Op};
pub use self::report::StormReport;
pub use self::storm::{assert_ran_once, storm};
// Hidden in the docs where they are defined, because rustdoc inlines this crate in the facade.
pub use idempotent_runtime::port::testkit::{BatchCounts, batch_counts};
