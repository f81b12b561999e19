//! The transactions and connections of sqlx 0.9.

use std::error::Error as StdError;
use std::future::Future;

use sqlx::Connection as _;

use crate::sql::connection::AsConnection;
use crate::sql::database::run::Run as _;
use crate::sql::driver::{ColumnType, Dialect, Driver, DriverError, Field, Value};
use crate::sql::failure::code::Code;
use crate::sql::retryable::is_broken;

#[diagnostic::do_not_recommend]
impl<T: AsConnection> Driver for T {
    type Connection = <T::Database as sqlx::Database>::Connection;

    fn connection(&mut self) -> &mut Self::Connection {
        self.as_connection()
    }

    fn dialect(&self) -> Dialect {
        T::Database::DIALECT
    }

    fn is_in_transaction(&mut self) -> bool {
        self.as_connection().is_in_transaction()
    }

    fn execute(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, DriverError>> + Send {
        let changed = T::Database::run_text(self.as_connection(), statement, values);
        async move { changed.await.map_err(failed) }
    }

    fn first_row(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
        columns: &[ColumnType],
    ) -> impl Future<Output = Result<Option<Vec<Field>>, DriverError>> + Send {
        let row = T::Database::first_row(self.as_connection(), statement, values, columns);
        async move { row.await.map_err(failed) }
    }

    fn execute_all(
        &mut self,
        statements: &str,
    ) -> impl Future<Output = Result<(), DriverError>> + Send {
        let done = T::Database::execute_all(self.as_connection(), statements.to_owned());
        async move { done.await.map_err(failed) }
    }
}

fn failed(error: sqlx::Error) -> DriverError {
    Reading::of(&error).with(error)
}

/// What an error of sqlx says.
pub(super) enum Reading {
    Refused(Code, Option<String>),
    Lost,
    Other,
}

impl Reading {
    pub(super) fn of(error: &sqlx::Error) -> Self {
        if let Some(refusal) = error.as_database_error() {
            let constraint = refusal.constraint().map(str::to_owned);
            return Self::Refused(Code::from_refusal(refusal), constraint);
        }
        if is_broken(error) || matches!(error, sqlx::Error::WorkerCrashed) {
            return Self::Lost;
        }
        Self::Other
    }

    /// The error of a driver with this source.
    pub(super) fn with(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> DriverError {
        match self {
            Self::Refused(code, Some(name)) => {
                DriverError::refused(code, source).of_constraint(name)
            }
            Self::Refused(code, None) => DriverError::refused(code, source),
            Self::Lost => DriverError::lost(source),
            Self::Other => DriverError::other(source),
        }
    }
}
