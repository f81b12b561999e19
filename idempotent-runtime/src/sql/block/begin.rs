//! Transactions that the guard begins on pools of sqlx 0.9.

use std::ptr;

use sqlx::{Error, Pool, Transaction};

use super::retry::begin;
use crate::sql::adapters::reading::Reading;
use crate::sql::database::SqlxDatabase;
use crate::sql::driver::{DriverError, TransactionPool};
use crate::sql::failure::acquire_failed;

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

    fn identity(&self) -> Option<usize> {
        Some(ptr::from_ref(self.options()).addr())
    }
}
