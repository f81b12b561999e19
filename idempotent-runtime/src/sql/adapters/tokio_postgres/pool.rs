//! The pool of deadpool-postgres.
//!
//! The transaction of tokio-postgres borrows its connection, so a guard that owns both sends `BEGIN` and `COMMIT` itself.

use std::ptr;

use deadpool_postgres::{Manager, Pool, PoolError};
use tokio_postgres::Error;

use super::{failed, fields, typed};
use crate::sql::adapters::deadpool::DeadpoolTransaction;
use crate::sql::driver::{ColumnType, Dialect, Driver, DriverError, Field, TransactionPool, Value};

driver!(DeadpoolTransaction<Manager>);

impl TransactionPool for Pool {
    type Transaction = DeadpoolTransaction<Manager>;
    type Error = Error;

    async fn begin(&self) -> Result<Self::Transaction, DriverError> {
        let taken = self.get().await.map_err(|error| match error {
            PoolError::Backend(error) => failed(error),
            error => DriverError::other(error),
        });
        let transaction = DeadpoolTransaction::of(taken?);
        transaction.batch_execute("BEGIN").await.map_err(failed)?;
        Ok(transaction)
    }

    async fn commit(transaction: Self::Transaction) -> Result<(), Error> {
        transaction.batch_execute("COMMIT").await?;
        transaction.release();
        Ok(())
    }

    async fn roll_back(transaction: Self::Transaction) -> Result<(), Error> {
        transaction.batch_execute("ROLLBACK").await?;
        transaction.release();
        Ok(())
    }

    fn identity(&self) -> Option<usize> {
        Some(ptr::from_ref(self.manager()).addr())
    }
}
