//! The contract of a row that makes a call unique, and is committed with the work of the caller's transaction.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::error::store::StoreError;

/// What rows are written through, and committed by the caller: a transaction, or a connection that is in one.
#[diagnostic::on_unimplemented(
    message = "`tx` must be a transaction of sqlx or a connection that is in one, not `{Self}`",
    label = "this is neither a transaction nor a connection",
    note = "`tx` must be `&mut Transaction<'_, Postgres | MySql | Sqlite>` or `&mut PgConnection | MySqlConnection | SqliteConnection`: call `pool.begin().await?` and pass the transaction",
    note = "`tx` may also be a `&mut PoolConnection<_>`, or a `&mut T` where `T: idempotence::sql::AsConnection`",
    note = "each database needs its feature of the crate `idempotence`, and sqlx 0.9: `postgres`, `mysql` or `sqlite`"
)]
pub trait Rows: Send {
    /// Puts `row` unless one that has not expired stands under its key. If that one is of a transaction that is still
    /// open, waits for its end, at most for `patience`, or for 5 s.
    fn claim<'a>(
        &'a mut self,
        row: Row<'a>,
        patience: Option<Duration>,
    ) -> BoxFuture<'a, Result<RowClaim, StoreError>>;

    /// Puts `value` in the place of the row's, and has it stand for the row's `ttl` from now on. Whether the row was there.
    fn replace<'a>(
        &'a mut self,
        row: Row<'a>,
        value: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Takes the row away.
    fn remove<'a>(&'a mut self, row: Row<'a>) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// How long a duplicate waits for a transaction that has its key open, unless `wait` says another time.
pub(crate) const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);

/// The row of one call.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Its key, as a store would have it.
    pub key: &'a str,
    /// Its record.
    pub value: &'a Bytes,
    /// For how long it stands.
    pub ttl: Duration,
}

/// The answer to [`Rows::claim`].
#[derive(Debug)]
pub enum RowClaim {
    /// The row is in the transaction.
    Claimed,
    /// Another stands there.
    Taken(Bytes),
    /// Another is in a transaction that is still open.
    StillOpen,
    /// The connection is in no transaction; nothing was written.
    NoTransaction,
}
