//! The dedup row: what makes a call unique, written in the caller's transaction.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::store::rows::{Row, RowClaim};

/// How a database keeps dedup rows. None of these begins or ends the transaction.
pub trait Dedup: sqlx::Database {
    /// As [`Rows::claim`](crate::store::rows::Rows::claim), on a connection that is in a transaction.
    fn claim_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
        patience: Option<Duration>,
    ) -> impl Future<Output = sqlx::Result<RowClaim>> + Send;

    /// As [`Rows::replace`](crate::store::rows::Rows::replace).
    fn replace_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
        value: &Bytes,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// As [`Rows::remove`](crate::store::rows::Rows::remove).
    fn remove_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
}
