//! The transactions, connections and pools of sqlx 0.8 for PostgreSQL.

use std::error::Error as StdError;
use std::ptr;
use std::time::Duration;

use sqlx_08::error::DatabaseError;
use sqlx_08::pool::PoolConnection;
use sqlx_08::postgres::PgRow;
use sqlx_08::{
    Connection as _, Error, Executor, PgConnection, PgPool, Postgres, Row as _, Transaction, query,
};

use crate::adapters::answered::Answered;
use crate::code::{CLOSED_AT_FIRST_MESSAGE, Code};
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::pool::TransactionPool;
use crate::transaction::Driver;
use crate::value::{ColumnType, Field, Value};

macro_rules! bound {
    ($statement:expr, $values:expr) => {{
        let mut query = query($statement);
        for value in $values {
            query = match *value {
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes),
                Value::Integer(number) => query.bind(number),
                Value::Float(number) => query.bind(number),
            };
        }
        query
    }};
}

macro_rules! driver {
    ($transaction:ty) => {
        impl Driver for $transaction {
            type Connection = PgConnection;

            fn connection(&mut self) -> &mut PgConnection {
                self
            }

            fn dialect(&self) -> Dialect {
                Dialect::Postgres
            }

            fn is_in_transaction(&mut self) -> bool {
                let connection: &PgConnection = self;
                connection.is_in_transaction()
            }

            async fn execute(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
            ) -> Result<u64, DriverError> {
                let query = bound!(statement, values);
                let done = query.execute(self.connection()).await;
                Ok(done.map_err(failed)?.rows_affected())
            }

            async fn first_row(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
                columns: &[ColumnType],
            ) -> Result<Option<Vec<Field>>, DriverError> {
                let query = bound!(statement, values);
                let row = query.fetch_optional(self.connection()).await;
                let row = row.map_err(failed)?.map(|row| fields(&row, columns));
                row.transpose().map_err(failed)
            }

            async fn execute_all(&mut self, statements: &str) -> Result<(), DriverError> {
                let done = Executor::execute(self.connection(), statements).await;
                done.map(drop).map_err(failed)
            }
        }
    };
}

driver!(Transaction<'_, Postgres>);
driver!(PoolConnection<Postgres>);
driver!(PgConnection);

impl TransactionPool for PgPool {
    type Transaction = Transaction<'static, Postgres>;
    type Error = Error;

    async fn begin(&self) -> Result<Self::Transaction, DriverError> {
        let connection = self.acquire().await.map_err(failed)?;
        let begin = Transaction::begin(connection, None);
        Answered::new(begin).await.map_err(failed)
    }

    async fn commit(transaction: Self::Transaction) -> Result<(), Error> {
        transaction.commit().await
    }

    async fn roll_back(transaction: Self::Transaction) -> Result<(), Error> {
        transaction.rollback().await
    }

    fn acquire_timeout(&self) -> Option<Duration> {
        Some(self.options().get_acquire_timeout())
    }

    fn identity(&self) -> Option<usize> {
        Some(ptr::from_ref(self.options()).addr())
    }
}

fn fields(row: &PgRow, columns: &[ColumnType]) -> Result<Vec<Field>, Error> {
    let field = |(i, column): (usize, &ColumnType)| {
        Ok(match column {
            ColumnType::Text => row.try_get::<Option<String>, _>(i)?.into(),
            ColumnType::Bytes => row.try_get::<Option<Vec<u8>>, _>(i)?.into(),
            ColumnType::Integer => row.try_get::<Option<i64>, _>(i)?.into(),
            ColumnType::Float => row.try_get::<Option<f64>, _>(i)?.into(),
        })
    };
    columns.iter().enumerate().map(field).collect()
}

fn failed(error: Error) -> DriverError {
    let Some(code) = code_of(&error) else {
        return if is_lost(&error) {
            DriverError::lost(error)
        } else {
            DriverError::other(error)
        };
    };
    let constraint = error
        .as_database_error()
        .and_then(DatabaseError::constraint);
    match constraint.map(str::to_owned) {
        Some(name) => DriverError::refused(code, error).of_constraint(name),
        None => DriverError::refused(code, error),
    }
}

/// The code in an error of sqlx 0.8, without its causes.
pub(crate) fn code_of(error: &(dyn StdError + 'static)) -> Option<Code> {
    let refusal = match error.downcast_ref() {
        Some(Error::Database(refusal)) => Some(refusal),
        // `#[error(transparent)]` leaves only this part.
        _ => error.downcast_ref::<Box<dyn DatabaseError>>(),
    };
    Some(Code::State(refusal?.code()?.into_owned()))
}

/// Whether sqlx 0.8 could not read an answer, without its causes.
pub(crate) fn is_unreadable(error: &(dyn StdError + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(Error::Protocol(_)))
}

/// Whether the error is a lost connection of sqlx 0.8, without its causes.
pub(crate) fn is_lost(error: &(dyn StdError + 'static)) -> bool {
    match error.downcast_ref() {
        Some(Error::Io(_) | Error::WorkerCrashed) => true,
        // What sqlx reads if a server closes a new connection.
        Some(Error::Protocol(text)) => text.starts_with(CLOSED_AT_FIRST_MESSAGE),
        _ => false,
    }
}
