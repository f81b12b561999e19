//! For tests: stores that fail on purpose, stores that count, and the suite that every [`Store`](crate::Store) has to
//! pass. Private servers of Redis, PostgreSQL and MariaDB are in the crate `idempotence-test-servers`.
//!
//! Time is [`tokio::time`] everywhere in this crate, so the test clock is `tokio::time::pause()`,
//! or `#[tokio::test(start_paused = true)]`: for everything but real servers.

pub mod conformance;
mod counting;
mod faulty;
mod op;

pub use self::counting::{CountingStore, Counts};
pub use self::faulty::{Fault, FaultyStore};
pub use self::op::Op;
#[doc(inline)]
pub use crate::conformance;
