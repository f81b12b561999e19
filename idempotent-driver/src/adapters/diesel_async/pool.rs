//! The pools of diesel-async, from deadpool and from bb8.

#[cfg(feature = "diesel-async-deadpool")]
use std::ptr;
#[cfg(feature = "diesel-async-deadpool")]
use std::time::Duration;

#[cfg(feature = "diesel-async-bb8")]
use ::bb8::ManageConnection;
#[cfg(feature = "diesel-async-deadpool")]
use deadpool::managed::{Manager, PoolError as DeadpoolError};
use diesel::ConnectionError;
use diesel::result::Error;
#[cfg(feature = "diesel-async-bb8")]
use diesel_async::pooled_connection::bb8;
use diesel_async::pooled_connection::{AsyncDieselConnectionManager, PoolError};
use diesel_async::{AnsiTransactionManager, AsyncConnection, TransactionManager as _};

use super::failed;
#[cfg(feature = "diesel-async-deadpool")]
use crate::adapters::deadpool::DeadpoolTransaction;
use crate::dialect::Dialect;
use crate::error::DriverError;
#[cfg(feature = "diesel-async-deadpool")]
use crate::pool::ACQUIRE_TIMEOUT;
use crate::pool::TransactionPool;
use crate::transaction::Driver;
use crate::value::{ColumnType, Field, Value};

/// The driver of a transaction is that of its connection.
macro_rules! driver {
    ($transaction:ty, $manager:path) => {
        impl<C: Driver> Driver for $transaction
        where
            AsyncDieselConnectionManager<C>: $manager,
        {
            type Connection = C::Connection;

            fn connection(&mut self) -> &mut Self::Connection {
                (**self).connection()
            }

            fn dialect(&self) -> Dialect {
                (**self).dialect()
            }

            fn is_in_transaction(&mut self) -> bool {
                (**self).is_in_transaction()
            }

            async fn execute(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
            ) -> Result<u64, DriverError> {
                (**self).execute(statement, values).await
            }

            async fn first_row(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
                columns: &[ColumnType],
            ) -> Result<Option<Vec<Field>>, DriverError> {
                (**self).first_row(statement, values, columns).await
            }

            async fn execute_all(&mut self, statements: &str) -> Result<(), DriverError> {
                (**self).execute_all(statements).await
            }
        }
    };
}

#[cfg(feature = "diesel-async-deadpool")]
driver!(
    DeadpoolTransaction<AsyncDieselConnectionManager<C>>,
    Manager<Type = C>
);

#[cfg(feature = "diesel-async-deadpool")]
impl<C> TransactionPool for diesel_async::pooled_connection::deadpool::Pool<C>
where
    AsyncDieselConnectionManager<C>: Manager<Type = C, Error = PoolError>,
    C: AsyncConnection<TransactionManager = AnsiTransactionManager> + Driver,
{
    type Transaction = DeadpoolTransaction<AsyncDieselConnectionManager<C>>;
    type Error = Error;

    async fn begin(&self) -> Result<Self::Transaction, DriverError> {
        let taken = self.get().await.map_err(|error| match error {
            DeadpoolError::Backend(error) => not_opened(error),
            error => DriverError::other(error),
        });
        let mut transaction = DeadpoolTransaction::of(taken?);
        begin(&mut *transaction).await?;
        Ok(transaction)
    }

    async fn commit(mut transaction: Self::Transaction) -> Result<(), Error> {
        AnsiTransactionManager::commit_transaction(&mut *transaction).await?;
        transaction.release();
        Ok(())
    }

    async fn roll_back(mut transaction: Self::Transaction) -> Result<(), Error> {
        AnsiTransactionManager::rollback_transaction(&mut *transaction).await?;
        transaction.release();
        Ok(())
    }

    fn acquire_timeout(&self) -> Option<Duration> {
        Some(self.timeouts().wait.unwrap_or(ACQUIRE_TIMEOUT))
    }

    fn identity(&self) -> Option<usize> {
        Some(ptr::from_ref(self.manager()).addr())
    }
}

#[cfg(feature = "diesel-async-bb8")]
driver!(
    bb8::PooledConnection<'static, C>,
    ManageConnection<Connection = C>
);

/// bb8 closes a connection that returns in a transaction. It shows nothing by which two pools differ.
#[cfg(feature = "diesel-async-bb8")]
impl<C> TransactionPool for bb8::Pool<C>
where
    AsyncDieselConnectionManager<C>: ManageConnection<Connection = C, Error = PoolError>,
    C: AsyncConnection<TransactionManager = AnsiTransactionManager> + Driver,
{
    type Transaction = bb8::PooledConnection<'static, C>;
    type Error = Error;

    async fn begin(&self) -> Result<Self::Transaction, DriverError> {
        let taken = self.get_owned().await.map_err(|error| match error {
            bb8::RunError::User(error) => not_opened(error),
            error @ bb8::RunError::TimedOut => DriverError::other(error),
        });
        let mut connection = taken?;
        begin(&mut *connection).await?;
        Ok(connection)
    }

    async fn commit(mut transaction: Self::Transaction) -> Result<(), Error> {
        AnsiTransactionManager::commit_transaction(&mut *transaction).await
    }

    async fn roll_back(mut transaction: Self::Transaction) -> Result<(), Error> {
        AnsiTransactionManager::rollback_transaction(&mut *transaction).await
    }
}

async fn begin<C>(connection: &mut C) -> Result<(), DriverError>
where
    C: AsyncConnection<TransactionManager = AnsiTransactionManager>,
{
    let begun = AnsiTransactionManager::begin_transaction(connection).await;
    begun.map_err(failed)
}

/// Why a pool has no connection.
fn not_opened(error: PoolError) -> DriverError {
    match error {
        PoolError::ConnectionError(ConnectionError::CouldntSetupConfiguration(error))
        | PoolError::QueryError(error) => failed(error),
        PoolError::ConnectionError(error @ ConnectionError::BadConnection(_)) => {
            DriverError::lost(error)
        }
        PoolError::ConnectionError(error) => DriverError::other(error),
    }
}
