//! The dedup row: what makes a call unique, written in the caller's transaction.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sqlx::Connection as _;

use crate::sql::connection::AsConnection;
use crate::sql::failure;
use crate::store::StoreError;
use crate::store::rows::{Row, RowClaim, Rows};

/// How a database keeps dedup rows. None of these begins or ends the transaction.
pub trait Dedup: sqlx::Database {
    /// As [`Rows::claim`], on a connection that is in a transaction.
    fn claim_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
        patience: Option<Duration>,
    ) -> impl Future<Output = sqlx::Result<RowClaim>> + Send;

    /// As [`Rows::replace`].
    fn replace_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
        value: &Bytes,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// As [`Rows::remove`].
    fn remove_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
}

#[diagnostic::do_not_recommend]
impl<T: AsConnection> Rows for T {
    fn claim<'a>(
        &'a mut self,
        row: Row<'a>,
        patience: Option<Duration>,
    ) -> BoxFuture<'a, Result<RowClaim, StoreError>> {
        let connection = self.as_connection();
        if !connection.is_in_transaction() {
            return std::future::ready(Ok(RowClaim::NoTransaction)).boxed();
        }
        let claim = T::Database::claim_row(connection, row, patience);
        async move { claim.await.map_err(failure::of) }.boxed()
    }

    fn replace<'a>(
        &'a mut self,
        row: Row<'a>,
        value: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let replaced = T::Database::replace_row(self.as_connection(), row, value);
        async move { replaced.await.map_err(failure::of) }.boxed()
    }

    fn remove<'a>(&'a mut self, row: Row<'a>) -> BoxFuture<'a, Result<(), StoreError>> {
        let removed = T::Database::remove_row(self.as_connection(), row);
        async move { removed.await.map_err(failure::of) }.boxed()
    }
}
