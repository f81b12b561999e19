//! The transactions of tokio-postgres 0.7, and of deadpool-postgres.

use std::error::Error as StdError;
use std::io;

use tokio_postgres::error::DbError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Transaction};

use crate::code::Code;
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::transaction::Driver;
use crate::value::{ColumnType, Field, Value};

/// `execute` and `query` send a statement.
macro_rules! driver {
    ($transaction:ty, $execute:path, $query:path) => {
        impl Driver for $transaction {
            type Connection = Self;

            fn connection(&mut self) -> &mut Self {
                self
            }

            fn dialect(&self) -> Dialect {
                Dialect::Postgres
            }

            async fn execute(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
            ) -> Result<u64, DriverError> {
                let changed = $execute(self, statement, values).await;
                changed.map_err(failed)
            }

            async fn first_row(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
                columns: &[ColumnType],
            ) -> Result<Option<Vec<Field>>, DriverError> {
                let rows = $query(self, statement, values).await;
                let rows = rows.map_err(failed)?;
                let row = rows.first().map(|row| fields(row, columns));
                row.transpose().map_err(failed)
            }

            async fn execute_all(&mut self, statements: &str) -> Result<(), DriverError> {
                self.batch_execute(statements).await.map_err(failed)
            }
        }
    };
}

#[cfg(feature = "deadpool-postgres")]
mod deadpool;

driver!(Transaction<'_>, execute, query);
driver!(&Transaction<'_>, execute, query);

/// Sends the statement unprepared, with the types of its values: in one round trip, because the library keeps no prepared statements.
async fn execute(
    transaction: &Transaction<'_>,
    statement: &str,
    values: &[Value<'_>],
) -> Result<u64, Error> {
    let values: Vec<_> = values.iter().map(typed).collect();
    transaction.execute_typed(statement, &values).await
}

async fn query(
    transaction: &Transaction<'_>,
    statement: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Error> {
    let values: Vec<_> = values.iter().map(typed).collect();
    transaction.query_typed(statement, &values).await
}

/// The value with its type, so that PostgreSQL infers no other.
fn typed<'a>(value: &'a Value<'a>) -> (&'a (dyn ToSql + Sync), Type) {
    match value {
        Value::Text(text) => (text, Type::TEXT),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
        Value::Integer(number) => (number, Type::INT8),
        Value::Float(number) => (number, Type::FLOAT8),
    }
}

fn fields(row: &Row, columns: &[ColumnType]) -> Result<Vec<Field>, Error> {
    let field = |(i, column): (usize, &ColumnType)| {
        Ok(match column {
            ColumnType::Text => row.try_get::<_, Option<String>>(i)?.into(),
            ColumnType::Bytes => row.try_get::<_, Option<Vec<u8>>>(i)?.into(),
            ColumnType::Integer => row.try_get::<_, Option<i64>>(i)?.into(),
            ColumnType::Float => row.try_get::<_, Option<f64>>(i)?.into(),
        })
    };
    columns.iter().enumerate().map(field).collect()
}

fn failed(error: Error) -> DriverError {
    let Some(refusal) = error.as_db_error() else {
        let is_lost =
            is_lost(&error) || error.source().is_some_and(<dyn StdError>::is::<io::Error>);
        return if is_lost {
            DriverError::lost(error)
        } else {
            DriverError::other(error)
        };
    };
    let (state, constraint) = (refusal.code().code().to_owned(), refusal.constraint());
    match constraint.map(str::to_owned) {
        Some(name) => DriverError::postgres(state, error).of_constraint(name),
        None => DriverError::postgres(state, error),
    }
}

/// The code in an error of tokio-postgres, without its causes.
pub(crate) fn code_of(error: &(dyn StdError + 'static)) -> Option<Code> {
    let refusal: &DbError = error.downcast_ref()?;
    Some(Code::State(refusal.code().code().to_owned()))
}

/// Whether the error is a lost connection of tokio-postgres, without its causes.
pub(crate) fn is_lost(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref().is_some_and(Error::is_closed)
}

/// Whether tokio-postgres could not read an answer, without its causes. Only the text of its errors tells their kinds.
pub(crate) fn is_unreadable(error: &(dyn StdError + 'static)) -> bool {
    const TEXTS: [&str; 2] = [
        "unexpected message from server",
        "error parsing response from server",
    ];
    let error: Option<&Error> = error.downcast_ref();
    let text = error.map(ToString::to_string).unwrap_or_default();
    TEXTS.iter().any(|start| text.starts_with(start))
}
