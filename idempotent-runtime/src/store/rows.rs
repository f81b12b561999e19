//! The contract of a row that makes a call unique and is committed with the caller's transaction.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::error::store::StoreError;
use crate::policy::times;

/// A transaction, or a connection in a transaction, that writes rows. The caller commits it.
#[diagnostic::on_unimplemented(
    message = "`tx` must be a transaction of a library of databases, or a connection that is in one, not `{Self}`",
    label = "this is no transaction that can hold the row of the call",
    note = "sqlx 0.9: `&mut Transaction<'_, Postgres | MySql | Sqlite>` or a `&mut` connection that is in a transaction; a type of another version of sqlx has the same name, so take it from `idempotence::sql::sqlx`",
    note = "with the feature `tokio-postgres`: `&Transaction<'_>` of tokio-postgres 0.7; `deadpool-postgres`: that of deadpool-postgres 0.14; `diesel-async`: `&mut AsyncPgConnection` of diesel-async 0.9; `diesel-async-mysql`: also `&mut AsyncMysqlConnection`; `sea-orm`: `&DatabaseTransaction` of SeaORM 2.0; `sqlx-08`: `&mut Transaction<'_, Postgres>` of sqlx 0.8",
    note = "any other type must implement `idempotence::sql::driver::Driver`; a pool is no transaction: call `pool.begin().await?` and pass the transaction",
    note = "each database needs its feature of the crate `idempotence`: `postgres`, `mysql` or `sqlite`"
)]
pub trait Rows: Send {
    /// Inserts `row` unless a row that has not expired is stored under its key. If an open transaction holds that row, waits
    /// for the end of the transaction, for at most `wait`, by default 5 s.
    fn claim<'a>(
        &'a mut self,
        row: Row<'a>,
        wait: Option<Duration>,
    ) -> BoxFuture<'a, Result<RowClaim, StoreError>>;

    /// How long a claim may wait for an open transaction: `wait`, or longer on a database that does not read it.
    fn longest_wait(&self, wait: Option<Duration>) -> Duration {
        row_wait(wait)
    }

    /// Replaces the row's value by `value`, with the row's `ttl` from now on. Returns whether the row existed.
    fn replace<'a>(
        &'a mut self,
        row: Row<'a>,
        value: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Removes the row.
    fn remove<'a>(&'a mut self, row: Row<'a>) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// How long a duplicate waits for an open transaction that holds its key, unless `wait` sets another time.
pub(crate) const DEFAULT_ROW_WAIT: Duration = Duration::from_secs(5);

/// How long a duplicate with the option `wait` waits for an open transaction that holds its key. An instant so far away exists.
pub(crate) fn row_wait(wait: Option<Duration>) -> Duration {
    wait.unwrap_or(DEFAULT_ROW_WAIT).min(times::LONGEST)
}

/// The row of one call.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The key, in the form of a store's key.
    pub key: &'a str,
    /// The record.
    pub value: &'a Bytes,
    /// The time to live.
    pub ttl: Duration,
}

/// The answer to [`Rows::claim`].
#[derive(Debug)]
pub enum RowClaim {
    /// The row is in the transaction.
    Claimed,
    /// Another row is stored under the key.
    Taken(Bytes),
    /// An open transaction holds another row.
    StillOpen,
    /// The connection is not in a transaction; nothing was written.
    NoTransaction,
}
