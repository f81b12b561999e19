//! A connection that is checked out of a pool for one operation.

use std::ops::{Deref, DerefMut};

use sqlx::Pool;
use sqlx::pool::PoolConnection;

use super::records::Records;

/// A connection that is closed on drop, unless it is reusable: then it returns to the pool.
#[derive(Debug)]
pub(crate) struct Checkout<DB: Records> {
    connection: PoolConnection<DB>,
    /// Whether the last operation on the connection has ended completely.
    reusable: bool,
}

impl<DB: Records> Checkout<DB> {
    /// For statements that commit by themselves.
    ///
    /// The answer to a cancelled statement is still on its way, and the next user of the connection would have to wait for it.
    /// So the connection is closed. SQLite answers at once, and a database in memory may end with its connection, so a
    /// connection to SQLite stays open.
    pub(crate) fn for_statements(connection: PoolConnection<DB>) -> Self {
        let reusable = !DB::ANSWERS_LATE;
        Self {
            connection,
            reusable,
        }
    }

    /// As [`for_statements`](Self::for_statements), for a connection that was [idle](Self::into_idle).
    pub(crate) fn reuse_for_statements(mut self) -> Self {
        self.reusable = !DB::ANSWERS_LATE;
        self
    }

    /// For a transaction. A cancelled transaction stays open, so the connection is closed.
    pub(crate) fn for_transaction(connection: PoolConnection<DB>) -> Self {
        let reusable = false;
        Self {
            connection,
            reusable,
        }
    }

    /// Marks the connection as reusable without returning it to the pool: all answers have arrived.
    pub(crate) fn into_idle(mut self) -> Self {
        self.reusable = true;
        self
    }

    /// Closes the connection.
    pub(crate) fn close(mut self) {
        self.reusable = false;
    }

    /// Returns the connection to the pool: all answers have arrived.
    pub(crate) fn release(mut self) {
        self.reusable = true;
    }
}

/// Whether other users of the pool may wait for the connections of this process.
pub(crate) fn is_exhausted<DB: Records>(pool: &Pool<DB>) -> bool {
    let most = pool.options().get_max_connections();
    // The pool counts an idle connection after it gave the connection away. For a moment the number is below zero, and wraps.
    let has_idle = (1..=most as usize).contains(&pool.num_idle());
    pool.size() >= most && !has_idle
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
