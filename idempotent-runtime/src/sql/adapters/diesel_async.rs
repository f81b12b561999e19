//! The connection of diesel-async 0.9 to PostgreSQL, in a transaction.
//!
//! Diesel keeps no SQLSTATE in its errors. The states for which Diesel has no kind are read from the message, which the server writes in
//! English unless `lc_messages` names another language.

use std::error::Error as StdError;

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::row::Row;
use diesel::sql_types::{BigInt, Binary, Double, Nullable, Text, Untyped};
use diesel::{QueryResult, deserialize};
use diesel_async::{
    AnsiTransactionManager, AsyncConnectionCore, AsyncPgConnection, SimpleAsyncConnection,
    TransactionManager as _,
};
use futures_util::TryStreamExt as _;

use crate::sql::driver::{ColumnType, Dialect, Driver, DriverError, Field, Value};
use crate::sql::failure::code::Code;

impl Driver for AsyncPgConnection {
    type Connection = Self;

    fn connection(&mut self) -> &mut Self {
        self
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    /// A transaction that Diesel has begun. One that was begun by a statement is not recognized.
    fn is_in_transaction(&mut self) -> bool {
        let status = AnsiTransactionManager::transaction_manager_status_mut(self);
        matches!(status.transaction_depth(), Ok(Some(_)))
    }

    async fn execute(&mut self, statement: &str, values: &[Value<'_>]) -> Result<u64, DriverError> {
        let changed = self.execute_returning_count(Statement { statement, values });
        let changed = changed.await.map_err(failed)?;
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    async fn first_row(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
        columns: &[ColumnType],
    ) -> Result<Option<Vec<Field>>, DriverError> {
        let rows = self.load(Statement { statement, values });
        let rows: Vec<_> = rows
            .await
            .map_err(failed)?
            .try_collect()
            .await
            .map_err(failed)?;
        let row = rows.first().map(|row| fields(row, columns));
        row.transpose().map_err(DriverError::other)
    }

    async fn execute_all(&mut self, statements: &str) -> Result<(), DriverError> {
        self.batch_execute(statements).await.map_err(failed)
    }
}

/// A statement that Diesel prepares once for a connection, unlike one of `sql_query`.
#[derive(Debug)]
struct Statement<'a> {
    statement: &'a str,
    values: &'a [Value<'a>],
}

impl QueryFragment<Pg> for Statement<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(self.statement);
        for value in self.values {
            match value {
                Value::Text(text) => out.push_bind_param_value_only::<Text, str>(text),
                Value::Bytes(bytes) => out.push_bind_param_value_only::<Binary, [u8]>(bytes),
                Value::Integer(number) => out.push_bind_param_value_only::<BigInt, i64>(number),
                Value::Float(number) => out.push_bind_param_value_only::<Double, f64>(number),
            }?;
        }
        Ok(())
    }
}

impl QueryId for Statement<'_> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Statement<'_> {
    type SqlType = Untyped;
}

fn fields<'a>(row: &impl Row<'a, Pg>, columns: &[ColumnType]) -> deserialize::Result<Vec<Field>> {
    let field = |(i, column): (usize, &ColumnType)| {
        Ok(match column {
            ColumnType::Text => row
                .get_value::<Nullable<Text>, Option<String>, _>(i)?
                .into(),
            ColumnType::Bytes => row
                .get_value::<Nullable<Binary>, Option<Vec<u8>>, _>(i)?
                .into(),
            ColumnType::Integer => row.get_value::<Nullable<BigInt>, Option<i64>, _>(i)?.into(),
            ColumnType::Float => row.get_value::<Nullable<Double>, Option<f64>, _>(i)?.into(),
        })
    };
    columns.iter().enumerate().map(field).collect()
}

fn failed(error: Error) -> DriverError {
    if is_lost(&error) {
        return DriverError::lost(error);
    }
    let Some(code) = code_of(&error) else {
        return DriverError::other(error);
    };
    let constraint = match &error {
        Error::DatabaseError(_, refusal) => refusal.constraint_name().map(str::to_owned),
        _ => None,
    };
    match constraint {
        Some(name) => DriverError::refused(code, error).of_constraint(name),
        None => DriverError::refused(code, error),
    }
}

/// The code in an error of Diesel, without its causes.
pub(crate) fn code_of(error: &(dyn StdError + 'static)) -> Option<Code> {
    let Error::DatabaseError(kind, refusal) = error.downcast_ref()? else {
        return None;
    };
    let state = match kind {
        DatabaseErrorKind::SerializationFailure => "40001",
        DatabaseErrorKind::UniqueViolation => "23505",
        DatabaseErrorKind::ReadOnlyTransaction => "25006",
        _ => {
            let message = refusal.message();
            let (_, state) = MESSAGES
                .iter()
                .find(|(start, _)| message.starts_with(start))?;
            state
        }
    };
    Some(Code::State(state.to_owned()))
}

/// Whether the error is a lost connection of Diesel, without its causes.
pub(crate) fn is_lost(error: &(dyn StdError + 'static)) -> bool {
    use DatabaseErrorKind::{ClosedConnection, UnableToSendCommand};
    matches!(
        error.downcast_ref(),
        Some(Error::DatabaseError(
            ClosedConnection | UnableToSendCommand,
            _
        ))
    )
}

/// How messages of PostgreSQL begin, and their states. The last is of PgBouncer, which has lost the server.
const MESSAGES: [(&str, &str); 10] = [
    ("deadlock detected", "40P01"),
    ("canceling statement due to lock timeout", "55P03"),
    ("canceling statement due to statement timeout", "57014"),
    (
        "terminating connection due to administrator command",
        "57P01",
    ),
    (
        "terminating connection due to idle-in-transaction timeout",
        "25P03",
    ),
    ("the database system is starting up", "57P03"),
    ("the database system is shutting down", "57P03"),
    ("permission denied for ", "42501"),
    ("relation \"idempotence\" does not exist", "42P01"),
    ("server conn crashed?", "08P01"),
];
