//! Writes dedup rows through the driver of a transaction.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::database::time::micros;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::driver::Value;
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
        let claim = claim(self, row, wait);
        async move { claim.await.map_err(|error| failed(error, dialect)) }.boxed()
    }

    fn replace<'a>(
        &'a mut self,
        row: Row<'a>,
        value: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let dialect = self.dialect();
        let replaced = replace(self, row, value);
        async move { replaced.await.map_err(|error| failed(error, dialect)) }.boxed()
    }

    fn remove<'a>(&'a mut self, row: Row<'a>) -> BoxFuture<'a, Result<(), StoreError>> {
        let dialect = self.dialect();
        let removed = remove(self, row);
        async move { removed.await.map_err(|error| failed(error, dialect)) }.boxed()
    }
}

/// See [`Rows::claim`](crate::store::rows::Rows::claim). The connection is in a transaction.
async fn claim<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    wait: Option<Duration>,
) -> Result<RowClaim, DriverError> {
    match connection.dialect() {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => super::postgres::rows::claim(connection, row, wait).await,
        #[cfg(feature = "mysql")]
        Dialect::MySql => super::mysql::rows::claim(connection, row, wait).await,
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => super::sqlite::rows::claim(connection, row, wait).await,
        #[cfg(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        dialect => Err(not_compiled(dialect)),
    }
}

async fn replace<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    value: &Bytes,
) -> Result<bool, DriverError> {
    let (statement, values) = match connection.dialect() {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => (super::postgres::rows::REPLACE, replacement(row, value)),
        #[cfg(feature = "mysql")]
        Dialect::MySql => super::mysql::rows::replace(row, value),
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => (super::sqlite::rows::REPLACE, replacement(row, value)),
        #[cfg(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        dialect => return Err(not_compiled(dialect)),
    };
    Ok(connection.execute(statement, &values).await? == 1)
}

async fn remove<C: Driver>(connection: &mut C, row: Row<'_>) -> Result<(), DriverError> {
    let (statement, values) = match connection.dialect() {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => (super::postgres::rows::REMOVE, removal(row)),
        #[cfg(feature = "mysql")]
        Dialect::MySql => super::mysql::rows::remove(row),
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => (super::sqlite::rows::REMOVE, removal(row)),
        #[cfg(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        dialect => return Err(not_compiled(dialect)),
    };
    connection.execute(statement, &values).await.map(drop)
}

/// The values of a replacement whose statement numbers them.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn replacement<'a>(row: Row<'a>, value: &'a [u8]) -> [Value<'a>; 4] {
    [
        Value::Text(row.key),
        Value::Bytes(row.value),
        Value::Bytes(value),
        Value::Integer(micros(row.ttl)),
    ]
}

/// The values of a removal whose statement numbers them.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn removal(row: Row<'_>) -> [Value<'_>; 2] {
    [Value::Text(row.key), Value::Bytes(row.value)]
}

#[cfg(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")))]
fn not_compiled(dialect: Dialect) -> DriverError {
    let name = dialect.name();
    DriverError::other(format!(
        "enable the feature of the crate `idempotence` for {name}: `postgres`, `mysql` or `sqlite`"
    ))
}

/// A connection of the caller does not reveal its address, so the place is the kind of database.
fn failed(error: DriverError, dialect: Dialect) -> StoreError {
    failure::driver_failed(error, dialect.name())
}
