//! Writes dedup rows through the driver of a transaction.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::database::rows;
use super::driver::{Dialect, Driver, DriverError};
use super::failure;
use crate::store::StoreError;
use crate::store::rows::{Row, RowClaim, Rows};

#[diagnostic::do_not_recommend]
impl<T: Driver> Rows for T {
    fn claim<'a>(
        &'a mut self,
        row: Row<'a>,
        wait: Option<Duration>,
    ) -> BoxFuture<'a, Result<RowClaim, StoreError>> {
        if !self.is_in_transaction() {
            return std::future::ready(Ok(RowClaim::NoTransaction)).boxed();
        }
        let dialect = self.dialect();
        let claim = rows::claim(self, row, wait);
        async move { claim.await.map_err(|error| failed(error, dialect)) }.boxed()
    }

    fn replace<'a>(
        &'a mut self,
        row: Row<'a>,
        value: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let dialect = self.dialect();
        let replaced = rows::replace(self, row, value);
        async move { replaced.await.map_err(|error| failed(error, dialect)) }.boxed()
    }

    fn remove<'a>(&'a mut self, row: Row<'a>) -> BoxFuture<'a, Result<(), StoreError>> {
        let dialect = self.dialect();
        let removed = rows::remove(self, row);
        async move { removed.await.map_err(|error| failed(error, dialect)) }.boxed()
    }
}

/// A connection of the caller does not reveal its address, so the place is the kind of database.
fn failed(error: DriverError, dialect: Dialect) -> StoreError {
    failure::driver_failed(error, dialect.name())
}
