//! The connections of diesel-async 0.9 to PostgreSQL, MySQL and MariaDB, in a transaction.
//!
//! Diesel keeps no code in its errors. The codes for which Diesel has no kind are read from the message, which the server writes in
//! English unless `lc_messages` names another language.

#[cfg(any(feature = "diesel-async-bb8", feature = "diesel-async-deadpool"))]
mod pool;

use std::error::Error as StdError;

use diesel::backend::Backend;
use diesel::deserialize::FromSql;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error};
use diesel::row::Row;
use diesel::serialize::ToSql;
use diesel::sql_types::{BigInt, Binary, Double, HasSqlType, Nullable, Text, Untyped};
use diesel::{QueryResult, deserialize};
use diesel_async::{
    AnsiTransactionManager, AsyncConnectionCore, AsyncPgConnection, SimpleAsyncConnection,
    TransactionManager as _,
};
use futures_util::TryStreamExt as _;

use crate::code::Code;
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::transaction::Driver;
use crate::value::{ColumnType, Field, Value};

macro_rules! driver {
    ($connection:ty, $backend:ty, $dialect:ident, $failed:expr) => {
        impl Driver for $connection {
            type Connection = Self;

            fn connection(&mut self) -> &mut Self {
                self
            }

            fn dialect(&self) -> Dialect {
                Dialect::$dialect
            }

            /// A transaction that Diesel has begun. One that was begun by a statement is not recognized.
            fn is_in_transaction(&mut self) -> bool {
                let status = AnsiTransactionManager::transaction_manager_status_mut(self);
                matches!(status.transaction_depth(), Ok(Some(_)))
            }

            async fn execute(
                &mut self,
                statement: &str,
                values: &[Value<'_>],
            ) -> Result<u64, DriverError> {
                let changed = self.execute_returning_count(Statement { statement, values });
                let changed = changed.await.map_err($failed)?;
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
                    .map_err($failed)?
                    .try_collect()
                    .await
                    .map_err($failed)?;
                let row = rows.first().map(|row| fields::<$backend>(row, columns));
                row.transpose().map_err(DriverError::other)
            }

            async fn execute_all(&mut self, statements: &str) -> Result<(), DriverError> {
                self.batch_execute(statements).await.map_err($failed)
            }
        }
    };
}

driver!(AsyncPgConnection, diesel::pg::Pg, Postgres, failed);
#[cfg(feature = "diesel-async-mysql")]
driver!(
    diesel_async::AsyncMysqlConnection,
    diesel::mysql::Mysql,
    MySql,
    failed_on_mysql
);

/// A statement that Diesel prepares once for a connection, unlike one of `sql_query`.
#[derive(Debug)]
struct Statement<'a> {
    statement: &'a str,
    values: &'a [Value<'a>],
}

impl<DB> QueryFragment<DB> for Statement<'_>
where
    DB: Backend + HasSqlType<Text> + HasSqlType<Binary> + HasSqlType<BigInt> + HasSqlType<Double>,
    str: ToSql<Text, DB>,
    [u8]: ToSql<Binary, DB>,
    i64: ToSql<BigInt, DB>,
    f64: ToSql<Double, DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
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

fn fields<'a, DB>(row: &impl Row<'a, DB>, columns: &[ColumnType]) -> deserialize::Result<Vec<Field>>
where
    DB: Backend,
    Option<String>: FromSql<Nullable<Text>, DB>,
    Option<Vec<u8>>: FromSql<Nullable<Binary>, DB>,
    Option<i64>: FromSql<Nullable<BigInt>, DB>,
    Option<f64>: FromSql<Nullable<Double>, DB>,
{
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

/// The same on MySQL, whose own number the claim of a row needs.
#[cfg(feature = "diesel-async-mysql")]
fn failed_on_mysql(error: Error) -> DriverError {
    use DatabaseErrorKind::{NotNullViolation, UniqueViolation};

    let number = match &error {
        Error::DatabaseError(UniqueViolation, _) => 1062,
        Error::DatabaseError(NotNullViolation, _) => 1048,
        _ => return failed(error),
    };
    DriverError::mysql(number, "23000", error)
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
        _ => return code_in(refusal.message()),
    };
    Some(Code::State(state.to_owned()))
}

/// The code of a message.
fn code_in(message: &str) -> Option<Code> {
    #[cfg(feature = "diesel-async-mysql")]
    for (start, within, number) in MYSQL_MESSAGES {
        if message.starts_with(start) && message.contains(within) {
            return Some(Code::MySql(number, String::new()));
        }
    }
    let mut states = MESSAGES.iter();
    let (_, state) = states.find(|(start, _)| message.starts_with(start))?;
    Some(Code::State((*state).to_owned()))
}

/// Whether the error is a lost connection of Diesel, without its causes.
pub(crate) fn is_lost(error: &(dyn StdError + 'static)) -> bool {
    use DatabaseErrorKind::{ClosedConnection, UnableToSendCommand, Unknown};
    match error.downcast_ref() {
        Some(Error::DatabaseError(ClosedConnection | UnableToSendCommand, _)) => true,
        // What mysql_async writes, for which Diesel has no kind.
        Some(Error::DatabaseError(Unknown, error)) => {
            let starts = ["Input/output error: ", "Driver error: `Connection to the "];
            starts
                .iter()
                .any(|start| error.message().starts_with(start))
        }
        _ => false,
    }
}

/// How messages of PostgreSQL begin, and their states. The last is of PgBouncer, which has lost the server.
const MESSAGES: [(&str, &str); 11] = [
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
    ("current transaction is aborted", "25P02"),
    ("permission denied for ", "42501"),
    ("relation \"idempotence\" does not exist", "42P01"),
    ("server conn crashed?", "08P01"),
];

/// How messages of MySQL and MariaDB begin, a part of them, and their numbers.
#[cfg(feature = "diesel-async-mysql")]
const MYSQL_MESSAGES: [(&str, &str, u16); 10] = [
    ("Deadlock found when trying to get lock", "", 1213),
    ("Lock wait timeout exceeded", "", 1205),
    ("Record has changed since last read in table", "", 1020),
    (
        "Statement aborted because lock(s) could not",
        "NOWAIT",
        3572,
    ),
    ("Server shutdown in progress", "", 1053),
    ("Got error ", " during COMMIT", 1180),
    ("Connection was killed", "", 1927),
    ("The client was disconnected by the server", "", 4031),
    ("Table '", ".idempotence' doesn't exist", 1146),
    ("", " command denied to user ", 1142),
];
