//! The transaction and the pool of deadpool-postgres, which keeps the prepared statements of each connection.
//!
//! Its transaction borrows the connection, so a guard that owns both sends `BEGIN` and `COMMIT` itself.

use std::ptr;
use std::time::Duration;

use deadpool_postgres::{Manager, Pool, PoolError, StatementCache, Transaction};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};

use super::{failed, fields, typed};
use crate::adapters::deadpool::DeadpoolTransaction;
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::pool::{ACQUIRE_TIMEOUT, TransactionPool};
use crate::transaction::Driver;
use crate::value::{ColumnType, Field, Value};

driver!(Transaction<'_>, execute, query);
driver!(&Transaction<'_>, execute, query);
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

    fn acquire_timeout(&self) -> Option<Duration> {
        Some(self.timeouts().wait.unwrap_or(ACQUIRE_TIMEOUT))
    }

    fn identity(&self) -> Option<usize> {
        Some(ptr::from_ref(self.manager()).addr())
    }
}

async fn execute(
    transaction: &Transaction<'_>,
    statement: &str,
    values: &[Value<'_>],
) -> Result<u64, Error> {
    let cache = &transaction.statement_cache;
    execute_prepared(transaction.client(), cache, statement, values).await
}

async fn query(
    transaction: &Transaction<'_>,
    statement: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Error> {
    let cache = &transaction.statement_cache;
    query_prepared(transaction.client(), cache, statement, values).await
}

async fn execute_begun(
    transaction: &DeadpoolTransaction<Manager>,
    statement: &str,
    values: &[Value<'_>],
) -> Result<u64, Error> {
    execute_prepared(transaction, &transaction.statement_cache, statement, values).await
}

async fn query_begun(
    transaction: &DeadpoolTransaction<Manager>,
    statement: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Error> {
    query_prepared(transaction, &transaction.statement_cache, statement, values).await
}

/// Prepares the statement once for a connection.
async fn execute_prepared(
    client: &Client,
    cache: &StatementCache,
    statement: &str,
    values: &[Value<'_>],
) -> Result<u64, Error> {
    let (values, types): (Vec<_>, Vec<_>) = values.iter().map(typed).unzip();
    let statement = cache.prepare_typed(client, statement, &types).await?;
    let changed = client.execute(&statement, &values).await;
    changed.inspect_err(|error| forget_lost(cache, error))
}

async fn query_prepared(
    client: &Client,
    cache: &StatementCache,
    statement: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Error> {
    let (values, types): (Vec<_>, Vec<_>) = values.iter().map(typed).unzip();
    let statement = cache.prepare_typed(client, statement, &types).await?;
    let rows = client.query(&statement, &values).await;
    rows.inspect_err(|error| forget_lost(cache, error))
}

/// A session loses its prepared statements by `DISCARD ALL`: the next call prepares them again.
fn forget_lost(cache: &StatementCache, error: &Error) {
    if error.code() == Some(&SqlState::UNDEFINED_PSTATEMENT) {
        cache.clear();
    }
}
