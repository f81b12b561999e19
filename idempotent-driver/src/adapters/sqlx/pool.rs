//! The pools of sqlx 0.9.

use std::ptr;
use std::time::Duration;

use sqlx::{Error, Pool, SqlSafeStr, Transaction};

use crate::adapters::answered::Answered;
use crate::adapters::reading::Reading;
use crate::database::SqlxDatabase;
use crate::error::DriverError;
use crate::failure::acquire_failed;
use crate::pool::TransactionPool;

impl<DB: SqlxDatabase> TransactionPool for Pool<DB> {
    type Transaction = Transaction<'static, DB>;
    type Error = Error;

    async fn begin(&self) -> Result<Self::Transaction, DriverError> {
        let failed = |error| Reading::of(&error).with(acquire_failed(error, self));
        begin(self).await.map_err(failed)
    }

    async fn commit(transaction: Self::Transaction) -> Result<(), Error> {
        transaction.commit().await
    }

    async fn roll_back(transaction: Self::Transaction) -> Result<(), Error> {
        transaction.rollback().await
    }

    fn acquire_timeout(&self) -> Option<Duration> {
        DB::HAS_SERVER.then(|| self.options().get_acquire_timeout())
    }

    fn identity(&self) -> Option<usize> {
        Some(ptr::from_ref(self.options()).addr())
    }
}

/// Begins a transaction that writes. If the future is dropped, only the wait for a connection ends: a `BEGIN` gets its answer.
///
/// # Errors
///
/// Why there is no connection, or why `BEGIN` failed.
pub async fn begin<DB: SqlxDatabase>(pool: &Pool<DB>) -> sqlx::Result<Transaction<'static, DB>> {
    let connection = pool.acquire().await?;
    let statement = DB::BEGIN.map(SqlSafeStr::into_sql_str);
    Answered::new(Transaction::begin(connection, statement)).await
}
