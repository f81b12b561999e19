//! What `begin` needs of a pool.

use std::error::Error as StdError;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::error::DriverError;
use crate::transaction::Driver;

/// A pool of a library, on which the guard begins the transaction of a call: what the option `begin` and
/// [`run_in_new`] need of it.
///
/// The pools of sqlx 0.9 implement it, and with their features those of other libraries. Implement it for your own type around the pool of
/// another library.
///
/// [`run_in_new`]: https://docs.rs/idempotence/latest/idempotence/struct.GuardedCall.html#method.run_in_new
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a pool on which this crate can begin a transaction",
    label = "not a pool",
    note = "use a `PgPool`, `MySqlPool` or `SqlitePool` of sqlx 0.9, a reference to it or an `Arc` of it: each database needs its feature of the crate `idempotence`",
    note = "with its feature another library works as well: `sqlx-08`, `sea-orm` (`DatabaseConnection`), `deadpool-postgres`, `diesel-async-deadpool`, `diesel-async-bb8`; your own pool implements `sql::driver::TransactionPool`"
)]
pub trait TransactionPool: Clone + Send + Sync {
    /// The transaction. If it is dropped before its end, it must be rolled back, or its connection closed.
    type Transaction: Driver;

    /// The error of the library.
    type Error: StdError + 'static;

    /// Takes a connection, and begins a transaction that writes.
    ///
    /// # Errors
    ///
    /// Why there is no connection, or why `BEGIN` failed. After a lost connection it may be called again.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, as when the guard's limit ends, no connection may return to the pool in a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction, DriverError>> + Send;

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// The error of the `COMMIT`. The caller's error type needs `From` of it, and reads its causes.
    fn commit(
        transaction: Self::Transaction,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Rolls the transaction back.
    ///
    /// # Errors
    ///
    /// If the connection is lost. Then the server rolls back.
    fn roll_back(
        transaction: Self::Transaction,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// How long the pool lets a caller wait for a connection. Default: 30 s, as in the pools of sqlx and bb8. The guard waits for its
    /// transaction for this time and the deadline of its handle.
    ///
    /// `None` for a database without a server, such as SQLite, where `BEGIN` waits for another writer as long as the connection says. The
    /// guard then has no limit.
    fn acquire_timeout(&self) -> Option<Duration> {
        Some(ACQUIRE_TIMEOUT)
    }

    /// A number that clones of the pool share, and that no other pool has while a clone lives, such as the address of a value in the
    /// pool. With it equal calls of this process wait without a connection. `None`: they wait in the database.
    fn identity(&self) -> Option<usize> {
        None
    }
}

/// How long a caller waits for a connection, if its pool does not say.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);

macro_rules! pointer {
    ($pointer:ty) => {
        impl<P: TransactionPool> TransactionPool for $pointer {
            type Transaction = P::Transaction;
            type Error = P::Error;

            fn begin(&self) -> impl Future<Output = Result<P::Transaction, DriverError>> + Send {
                P::begin(self)
            }

            fn commit(
                transaction: P::Transaction,
            ) -> impl Future<Output = Result<(), P::Error>> + Send {
                P::commit(transaction)
            }

            fn roll_back(
                transaction: P::Transaction,
            ) -> impl Future<Output = Result<(), P::Error>> + Send {
                P::roll_back(transaction)
            }

            fn acquire_timeout(&self) -> Option<Duration> {
                P::acquire_timeout(self)
            }

            fn identity(&self) -> Option<usize> {
                P::identity(self)
            }
        }
    };
}

pointer!(&P);
pointer!(Arc<P>);
