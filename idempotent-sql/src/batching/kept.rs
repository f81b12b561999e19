//! The connection that stays out of the pool between batches that follow each other.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use sqlx::Pool;
use sqlx::pool::PoolConnection;
use tokio::runtime::Handle;

use crate::database::Database;
use crate::database::checkout::{Checkout, is_exhausted};
use std::sync::Mutex;

/// A connection stays out of the pool for at most this time, so that the pool can test and replace it.
const LONGEST: Duration = Duration::from_millis(100);

/// The connection of the last batch. The pool pings each connection that returns, and no option of sqlx 0.9 changes that:
/// `test_before_acquire` is about connections that leave the pool, and `after_release` runs before the ping.
pub(super) struct KeptConnection<DB: Database>(Mutex<Option<Taken<DB>>>);

/// A connection, and when it left the pool.
pub(super) struct Taken<DB: Database> {
    pub(super) connection: Checkout<DB>,
    since: Instant,
}

impl<DB: Database> Taken<DB> {
    pub(super) fn new(acquired: PoolConnection<DB>) -> Self {
        Self {
            connection: Checkout::for_statements(acquired),
            since: Instant::now(),
        }
    }
}

impl<DB: Database> KeptConnection<DB> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The kept connection.
    pub(super) fn take(&self) -> Option<Taken<DB>> {
        let kept = self.replace(None)?;
        Some(Taken {
            connection: kept.connection.reuse_for_statements(),
            ..kept
        })
    }

    /// Keeps the connection, unless other users of the pool may wait for it.
    pub(super) fn keep(&self, pool: &Pool<DB>, taken: Taken<DB>) {
        if is_exhausted(pool) || taken.since.elapsed() >= LONGEST {
            taken.connection.release();
        } else {
            let connection = taken.connection.into_idle();
            drop(self.replace(Some(Taken {
                connection,
                ..taken
            })));
        }
    }

    /// Returns the connection to the pool. Only a runtime can do that.
    pub(super) fn release(&self) {
        if Handle::try_current().is_ok() {
            drop(self.replace(None));
        }
    }

    fn replace(&self, taken: Option<Taken<DB>>) -> Option<Taken<DB>> {
        let Self(kept) = self;
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut kept, taken)
    }
}
