//! The statements of a dedup row, which is written in the caller's transaction and makes a call unique.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use sqlx::Database;

use super::statement::{FixedStatement, Parameters};
use super::time::micros;
use crate::sql::driver::{Dialect, Driver, DriverError, Value};
use crate::store::rows::{Row, RowClaim};

/// The statements of a dedup row. None of them begins or ends the transaction.
pub(crate) trait Dedup: Database {
    /// The statements but the claim.
    const ROW_STATEMENTS: &'static RowStatements;

    /// See [`Rows::claim`](crate::store::rows::Rows::claim). The connection is in a transaction.
    fn claim_row<C: Driver>(
        connection: &mut C,
        row: Row<'_>,
        wait: Option<Duration>,
    ) -> impl Future<Output = Result<RowClaim, DriverError>> + Send;
}

/// The statements on the caller's own row.
#[derive(Debug)]
pub(crate) struct RowStatements {
    /// Replaces the expected value, and sets its time to live.
    pub(crate) replace: FixedStatement,
    /// Removes the expected value.
    pub(crate) remove: FixedStatement,
}

/// See [`Rows::claim`](crate::store::rows::Rows::claim). The connection is in a transaction.
pub(crate) async fn claim<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    wait: Option<Duration>,
) -> Result<RowClaim, DriverError> {
    match connection.dialect() {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => sqlx::Postgres::claim_row(connection, row, wait).await,
        #[cfg(feature = "mysql")]
        Dialect::MySql => sqlx::MySql::claim_row(connection, row, wait).await,
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => sqlx::Sqlite::claim_row(connection, row, wait).await,
        #[cfg(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        dialect => Err(not_compiled(dialect)),
    }
}

/// See [`Rows::replace`](crate::store::rows::Rows::replace).
pub(crate) async fn replace<C: Driver>(
    connection: &mut C,
    row: Row<'_>,
    value: &Bytes,
) -> Result<bool, DriverError> {
    let values = Parameters::new(row.key)
        .expected(row.value)
        .with(value)
        .micros(micros(row.ttl));
    let replace = &statements(connection.dialect())?.replace;
    Ok(change(connection, replace, values).await? == 1)
}

/// See [`Rows::remove`](crate::store::rows::Rows::remove).
pub(crate) async fn remove<C: Driver>(connection: &mut C, row: Row<'_>) -> Result<(), DriverError> {
    let values = Parameters::new(row.key).expected(row.value);
    let remove = &statements(connection.dialect())?.remove;
    change(connection, remove, values).await.map(drop)
}

/// Runs a statement. Returns the number of changed rows.
pub(crate) async fn change<C: Driver>(
    connection: &mut C,
    statement: &'static FixedStatement,
    values: Parameters<'_>,
) -> Result<u64, DriverError> {
    let values: Vec<Value<'_>> = statement.values(values).collect();
    connection.execute(statement.text, &values).await
}

#[cfg_attr(
    all(feature = "mysql", feature = "postgres", feature = "sqlite"),
    expect(clippy::unnecessary_wraps, reason = "a database may be left out")
)]
fn statements(dialect: Dialect) -> Result<&'static RowStatements, DriverError> {
    Ok(match dialect {
        #[cfg(feature = "postgres")]
        Dialect::Postgres => sqlx::Postgres::ROW_STATEMENTS,
        #[cfg(feature = "mysql")]
        Dialect::MySql => sqlx::MySql::ROW_STATEMENTS,
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => sqlx::Sqlite::ROW_STATEMENTS,
        #[cfg(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")))]
        dialect => return Err(not_compiled(dialect)),
    })
}

#[cfg(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")))]
fn not_compiled(dialect: Dialect) -> DriverError {
    let name = dialect.name();
    DriverError::other(format!(
        "enable the feature of the crate `idempotence` for {name}: `postgres`, `mysql` or `sqlite`"
    ))
}
