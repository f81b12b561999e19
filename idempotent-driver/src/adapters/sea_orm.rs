//! The transaction and the pool of SeaORM 2.0, whose connections are those of sqlx 0.9.

use std::error::Error as StdError;
use std::time::Duration;

use futures_util::FutureExt as _;
use sea_orm::{
    ConnectionTrait as _, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, QueryResult,
    RuntimeErr, SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait as _,
};

use crate::adapters::answered::Answered;
use crate::adapters::reading::Reading;
use crate::code::{Code, is_broken};
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::pool::{ACQUIRE_TIMEOUT, TransactionPool};
use crate::transaction::Driver;
use crate::value::{ColumnType, Field, Value};

macro_rules! driver {
    ($transaction:ty) => {
        impl Driver for $transaction {
            type Connection = Self;

            fn connection(&mut self) -> &mut Self {
                self
            }

            fn dialect(&self) -> Dialect {
                dialect(self.get_database_backend())
            }

            async fn execute(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
            ) -> Result<u64, DriverError> {
                let statement = bound(self.get_database_backend(), statement, values);
                let done = self.execute_raw(statement).await.map_err(failed)?;
                Ok(done.rows_affected())
            }

            async fn first_row(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
                columns: &[ColumnType],
            ) -> Result<Option<Vec<Field>>, DriverError> {
                let statement = bound(self.get_database_backend(), statement, values);
                let row = self.query_one_raw(statement).await.map_err(failed)?;
                let row = row.map(|row| fields(&row, columns));
                row.transpose().map_err(failed)
            }

            async fn execute_all(&mut self, statements: &str) -> Result<(), DriverError> {
                let done = self.execute_unprepared(statements).await;
                done.map(drop).map_err(failed)
            }
        }
    };
}

driver!(DatabaseTransaction);
driver!(&DatabaseTransaction);

/// It shows nothing by which two pools differ without the features of SeaORM for each database. SeaORM takes a connection and begins in one
/// step, so a call that is refused at its deadline leaves a task that waits for a connection as long as the pool says.
impl TransactionPool for DatabaseConnection {
    type Transaction = DatabaseTransaction;
    type Error = DbErr;

    async fn begin(&self) -> Result<DatabaseTransaction, DriverError> {
        let pool = self.clone();
        let begin = async move {
            let options = TransactionOptions {
                sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
                ..TransactionOptions::default()
            };
            pool.begin_with_options(options).await
        };
        Answered::new(begin.boxed()).await.map_err(failed)
    }

    async fn commit(transaction: DatabaseTransaction) -> Result<(), DbErr> {
        transaction.commit().await
    }

    async fn roll_back(transaction: DatabaseTransaction) -> Result<(), DbErr> {
        transaction.rollback().await
    }

    fn acquire_timeout(&self) -> Option<Duration> {
        (dialect(self.get_database_backend()) != Dialect::Sqlite).then_some(ACQUIRE_TIMEOUT)
    }
}

fn dialect(backend: DbBackend) -> Dialect {
    match backend {
        DbBackend::Postgres => Dialect::Postgres,
        DbBackend::MySql => Dialect::MySql,
        // SeaORM 2.0 has no other than SQLite.
        _ => Dialect::Sqlite,
    }
}

fn bound(backend: DbBackend, statement: &str, values: &[Value<'_>]) -> Statement {
    let values = values.iter().map(|value| match *value {
        Value::Text(text) => text.into(),
        Value::Bytes(bytes) => bytes.into(),
        Value::Integer(number) => number.into(),
        Value::Float(number) => number.into(),
    });
    Statement::from_sql_and_values(backend, statement, values)
}

fn fields(row: &QueryResult, columns: &[ColumnType]) -> Result<Vec<Field>, DbErr> {
    let field = |(i, column): (usize, &ColumnType)| {
        Ok(match column {
            ColumnType::Text => row.try_get_by_index::<Option<String>>(i)?.into(),
            ColumnType::Bytes => row.try_get_by_index::<Option<Vec<u8>>>(i)?.into(),
            ColumnType::Integer => row.try_get_by_index::<Option<i64>>(i)?.into(),
            ColumnType::Float => row.try_get_by_index::<Option<f64>>(i)?.into(),
        })
    };
    columns.iter().enumerate().map(field).collect()
}

fn failed(error: DbErr) -> DriverError {
    let reading = match &error {
        DbErr::Conn(cause) | DbErr::Exec(cause) | DbErr::Query(cause) => in_sqlx(cause),
        _ => None,
    };
    match reading.map(Reading::of) {
        Some(reading) => reading.with(error),
        None => DriverError::other(error),
    }
}

/// The code in an error of SeaORM, without its causes.
pub(crate) fn code_of(error: &(dyn StdError + 'static)) -> Option<Code> {
    Code::from_error(in_sqlx(error.downcast_ref()?)?)
}

/// Whether the error is a lost connection of SeaORM, without its causes.
pub(crate) fn is_lost(error: &(dyn StdError + 'static)) -> bool {
    let cause = error.downcast_ref().and_then(in_sqlx);
    cause.is_some_and(|cause| is_broken(cause) || matches!(cause, sqlx::Error::WorkerCrashed))
}

/// Whether SeaORM could not read an answer, without its causes.
pub(crate) fn is_unreadable(error: &(dyn StdError + 'static)) -> bool {
    let cause = error.downcast_ref().and_then(in_sqlx);
    matches!(cause, Some(sqlx::Error::Protocol(_)))
}

/// The error of sqlx, which SeaORM does not name as a `source()`.
fn in_sqlx(error: &RuntimeErr) -> Option<&sqlx::Error> {
    let RuntimeErr::SqlxError(error) = error else {
        return None;
    };
    Some(error)
}
