//! A connection of a pool, for the time of one operation.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;

use super::database::records::Records;

/// A connection that is closed when it is dropped, unless it may be lent again.
#[derive(Debug)]
pub(crate) struct Checkout<DB: Records> {
    connection: PoolConnection<DB>,
    /// Whether nothing is left of what it was lent for.
    reusable: bool,
}

impl<DB: Records> Checkout<DB> {
    /// For statements that are transactions of their own.
    ///
    /// Where one is given up, its answer is still to come, and whoever borrowed the connection next would
    /// wait for that first, however long it takes. SQLite has no answers that come later, and a
    /// database in memory may end with the connection.
    pub(crate) fn for_statements(connection: PoolConnection<DB>) -> Self {
        let reusable = !DB::ANSWERS_LATE;
        Self {
            connection,
            reusable,
        }
    }

    /// The same, by one that was [at rest](Self::as_idle).
    pub(crate) fn reuse_for_statements(mut self) -> Self {
        self.reusable = !DB::ANSWERS_LATE;
        self
    }

    /// For a transaction, which would stay open.
    pub(crate) fn for_transaction(connection: PoolConnection<DB>) -> Self {
        let reusable = false;
        Self {
            connection,
            reusable,
        }
    }

    /// All was answered, and it is kept: dropped as it is now, it may be lent again.
    pub(crate) fn as_idle(mut self) -> Self {
        self.reusable = true;
        self
    }

    /// All was answered.
    pub(crate) fn release(mut self) {
        self.reusable = true;
    }
}

impl<DB: Records> Deref for Checkout<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.connection
    }
}

impl<DB: Records> DerefMut for Checkout<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

impl<DB: Records> Drop for Checkout<DB> {
    fn drop(&mut self) {
        if !self.reusable {
            self.connection.close_on_drop();
        }
    }
}
