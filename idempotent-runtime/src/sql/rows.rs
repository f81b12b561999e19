//! Writes dedup rows through the driver of a transaction.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use idempotent_driver::port::failure::driver_failed;
use idempotent_driver::sql::driver::{Dialect, Driver, DriverError, Value};

use crate::sql::time::micros;
use crate::store::StoreError;
use crate::store::rows::{Row, RowClaim, Rows, row_wait};

mod mysql;
mod postgres;
pub(crate) mod sqlite;

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

    fn longest_wait(&self, wait: Option<Duration>) -> Duration {
        match self.dialect() {
            Dialect::MySql => mysql::longest_wait(wait),
            Dialect::Postgres | Dialect::Sqlite => row_wait(wait),
        }
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
        dialect if !dialect.is_enabled() => Err(not_enabled(dialect)),
        Dialect::Postgres => postgres::claim(connection, row, wait).await,
        Dialect::MySql => mysql::claim(connection, row, wait).await,
        Dialect::Sqlite => sqlite::claim(connection, row, wait).await,
    }
}

async fn replace<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    value: &Bytes,
) -> Result<bool, DriverError> {
    let (statement, values) = match connection.dialect() {
        Dialect::Postgres => (postgres::REPLACE, replacement(row, value)),
        Dialect::MySql => mysql::replace(row, value),
        Dialect::Sqlite => (sqlite::REPLACE, replacement(row, value)),
    };
    Ok(connection.execute(statement, &values).await? == 1)
}

async fn remove<C: Driver>(connection: &mut C, row: Row<'_>) -> Result<(), DriverError> {
    let (statement, values) = match connection.dialect() {
        Dialect::Postgres => (postgres::REMOVE, removal(row)),
        Dialect::MySql => mysql::remove(row),
        Dialect::Sqlite => (sqlite::REMOVE, removal(row)),
    };
    connection.execute(statement, &values).await.map(drop)
}

/// The values of a replacement whose statement numbers them.
fn replacement<'a>(row: Row<'a>, value: &'a [u8]) -> [Value<'a>; 4] {
    [
        Value::Text(row.key),
        Value::Bytes(row.value),
        Value::Bytes(value),
        Value::Integer(micros(row.ttl)),
    ]
}

/// The values of a removal whose statement numbers them.
fn removal(row: Row<'_>) -> [Value<'_>; 2] {
    [Value::Text(row.key), Value::Bytes(row.value)]
}

fn not_enabled(dialect: Dialect) -> DriverError {
    let name = dialect.name();
    DriverError::other(format!(
        "enable the feature of the crate `idempotence` for {name}: `postgres`, `mysql` or `sqlite`"
    ))
}

/// A connection of the caller does not reveal its address, so the place is the kind of database.
fn failed(error: DriverError, dialect: Dialect) -> StoreError {
    driver_failed(error, dialect.name()).into()
}
