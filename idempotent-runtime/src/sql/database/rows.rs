//! The statements of a dedup row, which is written in the caller's transaction and makes a call unique.

use bytes::Bytes;

use super::statement::{FixedStatement, Parameters};
use super::time::micros;
use crate::sql::driver::{Driver, DriverError, Value};
use crate::store::rows::Row;

/// The statements on the caller's own row. None of them begins or ends the transaction.
#[derive(Debug)]
pub(crate) struct RowStatements {
    /// Replaces the expected value, and sets its time to live.
    pub(crate) replace: FixedStatement,
    /// Removes the expected value.
    pub(crate) remove: FixedStatement,
}

impl RowStatements {
    /// See [`Rows::replace`](crate::store::rows::Rows::replace).
    pub(crate) async fn replace<C: Driver>(
        &'static self,
        connection: &mut C,
        row: Row<'_>,
        value: &Bytes,
    ) -> Result<bool, DriverError> {
        let values = Parameters::new(row.key)
            .expected(row.value)
            .with(value)
            .micros(micros(row.ttl));
        Ok(change(connection, &self.replace, values).await? == 1)
    }

    /// See [`Rows::remove`](crate::store::rows::Rows::remove).
    pub(crate) async fn remove<C: Driver>(
        &'static self,
        connection: &mut C,
        row: Row<'_>,
    ) -> Result<(), DriverError> {
        let values = Parameters::new(row.key).expected(row.value);
        change(connection, &self.remove, values).await.map(drop)
    }
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
