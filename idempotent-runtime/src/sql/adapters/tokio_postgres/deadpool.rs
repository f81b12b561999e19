//! The transaction and the pool of deadpool-postgres, which keeps the prepared statements of each connection.
//!
//! Its transaction borrows the connection, so a guard that owns both sends `BEGIN` and `COMMIT` itself.

use std::ptr;

use deadpool_postgres::{GenericClient, Manager, Pool, PoolError, Transaction};
use tokio_postgres::{Error, Row};

use super::{failed, fields, typed};
use crate::sql::adapters::deadpool::DeadpoolTransaction;
use crate::sql::driver::{ColumnType, Dialect, Driver, DriverError, Field, TransactionPool, Value};

driver!(
    Transaction<'_>,
    execute::<Transaction<'_>>,
    query::<Transaction<'_>>
);
driver!(
    &Transaction<'_>,
    execute::<Transaction<'_>>,
    query::<Transaction<'_>>
);
driver!(DeadpoolTransaction<Manager>, execute_begun, query_begun);

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

/// Prepares the statement once for a connection.
async fn execute<C: GenericClient>(
    client: &C,
    statement: &str,
    values: &[Value<'_>],
) -> Result<u64, Error> {
    let (values, types): (Vec<_>, Vec<_>) = values.iter().map(typed).unzip();
    let statement = client.prepare_typed_cached(statement, &types).await?;
    client.execute(&statement, &values).await
}

async fn query<C: GenericClient>(
    client: &C,
    statement: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Error> {
    let (values, types): (Vec<_>, Vec<_>) = values.iter().map(typed).unzip();
    let statement = client.prepare_typed_cached(statement, &types).await?;
    client.query(&statement, &values).await
}

async fn execute_begun(
    transaction: &DeadpoolTransaction<Manager>,
    statement: &str,
    values: &[Value<'_>],
) -> Result<u64, Error> {
    execute(transaction.object(), statement, values).await
}

async fn query_begun(
    transaction: &DeadpoolTransaction<Manager>,
    statement: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Error> {
    query(transaction.object(), statement, values).await
}
