//! Writes dedup rows through a transaction or a connection.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sqlx::{Connection as _, Database as _};

use super::connection::AsConnection;
use super::database::rows::{self, Dedup as _};
use super::failure;
use crate::store::StoreError;
use crate::store::rows::{Row, RowClaim, Rows};

#[diagnostic::do_not_recommend]
impl<T: AsConnection> Rows for T {
    fn claim<'a>(
        &'a mut self,
        row: Row<'a>,
        wait: Option<Duration>,
    ) -> BoxFuture<'a, Result<RowClaim, StoreError>> {
        let connection = self.as_connection();
        if !connection.is_in_transaction() {
            return std::future::ready(Ok(RowClaim::NoTransaction)).boxed();
        }
        let claim = T::Database::claim_row(connection, row, wait);
        async move { claim.await.map_err(failed::<T>) }.boxed()
    }

    fn replace<'a>(
        &'a mut self,
        row: Row<'a>,
        value: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let replaced = rows::replace::<T::Database>(self.as_connection(), row, value);
        async move { replaced.await.map_err(failed::<T>) }.boxed()
    }

    fn remove<'a>(&'a mut self, row: Row<'a>) -> BoxFuture<'a, Result<(), StoreError>> {
        let removed = rows::remove::<T::Database>(self.as_connection(), row);
        async move { removed.await.map_err(failed::<T>) }.boxed()
    }
}

/// A connection of the caller does not reveal its address, so the place is the kind of database.
fn failed<T: AsConnection>(error: sqlx::Error) -> StoreError {
    failure::statement_failed(error, T::Database::NAME)
}
