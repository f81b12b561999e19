//! The transactions and connections of sqlx 0.9.

use std::future::Future;

use sqlx::Connection as _;

use crate::adapters::reading::Reading;
use crate::database::connection::AsConnection;
use crate::database::run::Run as _;
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::transaction::Driver;
use crate::value::{ColumnType, Field, Value};

pub(crate) mod pool;

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
