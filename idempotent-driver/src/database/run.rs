//! Runs the statements of a caller's transaction.

use std::future::Future;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use sqlx::{AssertSqlSafe, Executor, Row as _, query};

use crate::dialect::Dialect;
use crate::value::{ColumnType, Field, Value};

/// Runs statements. Each database has its own implementation, because the bounds of a generic implementation do not hold behind
/// a reference.
pub trait Run: sqlx::Database {
    /// The database for a driver.
    const DIALECT: Dialect;

    /// Runs a statement of the caller's transaction. Returns the number of changed rows (`MySql`: of matched rows). One round trip.
    fn run_text(
        connection: &mut Self::Connection,
        statement: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Runs a statement of the caller's transaction to its end. Returns its first row. One round trip.
    fn first_row(
        connection: &mut Self::Connection,
        statement: &str,
        values: &[Value<'_>],
        columns: &[ColumnType],
    ) -> impl Future<Output = sqlx::Result<Option<Vec<Field>>>> + Send;

    /// Runs statements without values, separated by semicolons. One round trip.
    fn execute_all(
        connection: &mut Self::Connection,
        statements: String,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
}

#[doc(hidden)]
#[macro_export]
macro_rules! __sql_bind {
    ($query:expr, $values:expr) => {{
        let mut query = $query;
        for value in $values {
            query = match value {
                $crate::sql::driver::Value::Text(text) => query.bind(text),
                $crate::sql::driver::Value::Bytes(bytes) => query.bind(bytes),
                $crate::sql::driver::Value::Integer(number) => query.bind(number),
                $crate::sql::driver::Value::Float(number) => query.bind(number),
            };
        }
        query
    }};
}

pub use crate::__sql_bind as bind;

macro_rules! run {
    ($feature:literal, $database:ty, $connection:ty, $dialect:ident) => {
        #[cfg(feature = $feature)]
        impl Run for $database {
            const DIALECT: Dialect = Dialect::$dialect;

            async fn run_text(
                connection: &mut $connection,
                statement: &str,
                values: &[Value<'_>],
            ) -> sqlx::Result<u64> {
                let query = bind!(query(AssertSqlSafe(statement)), values.iter().copied());
                Ok(connection.execute(query).await?.rows_affected())
            }

            async fn first_row(
                connection: &mut $connection,
                statement: &str,
                values: &[Value<'_>],
                columns: &[ColumnType],
            ) -> sqlx::Result<Option<Vec<Field>>> {
                let query = bind!(query(AssertSqlSafe(statement)), values.iter().copied());
                let rows = connection.fetch_all(query).await?;
                let Some(row) = rows.first() else {
                    return Ok(None);
                };
                let mut fields = Vec::with_capacity(columns.len());
                for (i, column) in columns.iter().enumerate() {
                    fields.push(match column {
                        ColumnType::Text => row.try_get::<Option<String>, _>(i)?.into(),
                        ColumnType::Bytes => row.try_get::<Option<Vec<u8>>, _>(i)?.into(),
                        ColumnType::Integer => row.try_get::<Option<i64>, _>(i)?.into(),
                        ColumnType::Float => row.try_get::<Option<f64>, _>(i)?.into(),
                    });
                }
                Ok(Some(fields))
            }

            async fn execute_all(
                connection: &mut $connection,
                statements: String,
            ) -> sqlx::Result<()> {
                connection
                    .execute(sqlx::raw_sql(AssertSqlSafe(statements)))
                    .await?;
                Ok(())
            }
        }
    };
}

run!("postgres", sqlx::Postgres, sqlx::PgConnection, Postgres);
run!("mysql", sqlx::MySql, sqlx::MySqlConnection, MySql);
run!("sqlite", sqlx::Sqlite, sqlx::SqliteConnection, Sqlite);
