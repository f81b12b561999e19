//! The statements of a dedup row, which is written in the caller's transaction and makes a call unique.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::store::rows::{Row, RowClaim};

/// The statements of a dedup row. None of them begins or ends the transaction.
pub trait Dedup: sqlx::Database {
    /// See [`Rows::claim`](crate::store::rows::Rows::claim). The connection is in a transaction.
    fn claim_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
        wait: Option<Duration>,
    ) -> impl Future<Output = sqlx::Result<RowClaim>> + Send;

    /// See [`Rows::replace`](crate::store::rows::Rows::replace).
    fn replace_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
        value: &Bytes,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// See [`Rows::remove`](crate::store::rows::Rows::remove).
    fn remove_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
}
