//! The transaction of a guard on a connection of deadpool.

use std::fmt;
use std::ops::Deref;
#[cfg(feature = "diesel-async-deadpool")]
use std::ops::DerefMut;

use deadpool::managed::{Manager, Object};
#[cfg(feature = "diesel-async-deadpool")]
use diesel_async::pooled_connection::AsyncDieselConnectionManager;

/// A transaction that the guard has begun on a connection of deadpool. It is used as its connection: `AsyncPgConnection` or
/// `AsyncMysqlConnection` of diesel-async, `Client` of tokio-postgres.
///
/// It derefs to the `Client` only immutably, so `transaction` of the `Client` does not compile: it would begin no savepoint, and its end
/// would end this transaction. For a savepoint send `SAVEPOINT`. `transaction` of diesel-async is a savepoint.
pub struct DeadpoolTransaction<M: Manager>(Option<Object<M>>);

impl<M: Manager> DeadpoolTransaction<M> {
    pub(crate) fn of(connection: Object<M>) -> Self {
        Self(Some(connection))
    }

    pub(crate) fn object(&self) -> &Object<M> {
        self.0.as_ref().expect(HAS_CONNECTION)
    }

    /// Returns the connection to the pool, because the transaction has ended.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl<M: Manager> Deref for DeadpoolTransaction<M> {
    type Target = M::Type;

    fn deref(&self) -> &M::Type {
        self.object()
    }
}

#[cfg(feature = "diesel-async-deadpool")]
impl<C> DerefMut for DeadpoolTransaction<AsyncDieselConnectionManager<C>>
where
    AsyncDieselConnectionManager<C>: Manager<Type = C>,
{
    fn deref_mut(&mut self) -> &mut C {
        self.0.as_mut().expect(HAS_CONNECTION)
    }
}

const HAS_CONNECTION: &str = "a transaction has its connection until its end";

/// The pool looks at a connection only before its next use, and would keep the locks of the transaction until then.
impl<M: Manager> Drop for DeadpoolTransaction<M> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            // This closes the connection, and the server rolls back.
            drop(Object::take(connection));
        }
    }
}

impl<M: Manager> fmt::Debug for DeadpoolTransaction<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadpoolTransaction")
            .finish_non_exhaustive()
    }
}
