//! The statements of a dedup row, which is written in the caller's transaction and makes a call unique.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use super::run::Run;
use super::statement::{FixedStatement, Parameters};
use super::time::micros;
use crate::store::rows::{Row, RowClaim};

/// The statements of a dedup row. None of them begins or ends the transaction.
pub trait Dedup: Run {
    /// The statements but the claim.
    const ROW_STATEMENTS: &'static RowStatements;

    /// See [`Rows::claim`](crate::store::rows::Rows::claim). The connection is in a transaction.
    fn claim_row(
        connection: &mut Self::Connection,
        row: Row<'_>,
        wait: Option<Duration>,
    ) -> impl Future<Output = sqlx::Result<RowClaim>> + Send;
}

/// The statements on the caller's own row.
#[derive(Debug)]
pub struct RowStatements {
    /// Replaces the expected value, and sets its time to live.
    pub(crate) replace: FixedStatement,
    /// Removes the expected value.
    pub(crate) remove: FixedStatement,
}

/// See [`Rows::replace`](crate::store::rows::Rows::replace).
pub(crate) async fn replace<DB: Dedup>(
    connection: &mut DB::Connection,
    row: Row<'_>,
    value: &Bytes,
) -> sqlx::Result<bool> {
    let values = Parameters::new(row.key)
        .expected(row.value)
        .with(value)
        .micros(micros(row.ttl));
    Ok(DB::change(connection, &DB::ROW_STATEMENTS.replace, values).await? == 1)
}

/// See [`Rows::remove`](crate::store::rows::Rows::remove).
pub(crate) async fn remove<DB: Dedup>(
    connection: &mut DB::Connection,
    row: Row<'_>,
) -> sqlx::Result<()> {
    let values = Parameters::new(row.key).expected(row.value);
    DB::change(connection, &DB::ROW_STATEMENTS.remove, values)
        .await
        .map(drop)
}
