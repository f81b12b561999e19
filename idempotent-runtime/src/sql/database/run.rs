//! Runs statements.

use std::future::Future;

use sqlx::{AssertSqlSafe, Executor, QueryBuilder, query, query_as};

use super::statement::{FixedStatement, Parameter, Parameters};

/// Runs statements. Each database has its own implementation, because the bounds of a generic implementation do not hold behind
/// a reference.
pub trait Run: sqlx::Database {
    /// Runs a statement. Returns the number of changed rows (`MySql`: of matched rows). One round trip.
    fn execute(
        connection: &mut Self::Connection,
        statement: QueryBuilder<Self>,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Runs a statement to its end. Returns its first row. One round trip.
    fn fetch_optional(
        connection: &mut Self::Connection,
        statement: QueryBuilder<Self>,
    ) -> impl Future<Output = sqlx::Result<Option<Self::Row>>> + Send;

    /// Runs a statement of the store. Returns the number of changed rows (`MySql`: of matched rows). One round trip.
    fn change(
        connection: &mut Self::Connection,
        statement: &'static FixedStatement,
        values: Parameters<'_>,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Reads bytes and a number of the only row of a statement of the store. One round trip.
    fn read_bytes(
        connection: &mut Self::Connection,
        statement: &'static FixedStatement,
        values: Parameters<'_>,
    ) -> impl Future<Output = sqlx::Result<Option<(Vec<u8>, i64)>>> + Send;

    /// Reads two numbers of the only row of a statement of the store. One round trip.
    fn read_numbers(
        connection: &mut Self::Connection,
        statement: &'static FixedStatement,
        values: Parameters<'_>,
    ) -> impl Future<Output = sqlx::Result<Option<(i64, i64)>>> + Send;

    /// Runs statements without values, separated by semicolons. One round trip.
    fn execute_all(
        connection: &mut Self::Connection,
        statements: String,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
}

macro_rules! bind {
    ($query:expr, $statement:expr, $values:expr) => {{
        let mut query = $query;
        for value in $statement.values($values) {
            query = match value {
                Parameter::Text(text) => query.bind(text),
                Parameter::Bytes(bytes) => query.bind(bytes),
                Parameter::Integer(number) => query.bind(number),
            };
        }
        query
    }};
}

macro_rules! run {
    ($feature:literal, $database:ty, $connection:ty) => {
        #[cfg(feature = $feature)]
        impl Run for $database {
            async fn execute(
                connection: &mut $connection,
                mut statement: QueryBuilder<Self>,
            ) -> sqlx::Result<u64> {
                let done = connection.execute(statement.build()).await?;
                Ok(done.rows_affected())
            }

            async fn fetch_optional(
                connection: &mut $connection,
                mut statement: QueryBuilder<Self>,
            ) -> sqlx::Result<Option<Self::Row>> {
                // This fetches all rows, because the client of SQLite returns the first row before the statement is
                // committed, and would then not report a failed commit.
                let rows = connection.fetch_all(statement.build()).await?;
                Ok(rows.into_iter().next())
            }

            async fn change(
                connection: &mut $connection,
                statement: &'static FixedStatement,
                values: Parameters<'_>,
            ) -> sqlx::Result<u64> {
                let query = bind!(query(statement.text), statement, values);
                Ok(connection.execute(query).await?.rows_affected())
            }

            async fn read_bytes(
                connection: &mut $connection,
                statement: &'static FixedStatement,
                values: Parameters<'_>,
            ) -> sqlx::Result<Option<(Vec<u8>, i64)>> {
                let query = bind!(query_as(statement.text), statement, values);
                query.fetch_optional(connection).await
            }

            async fn read_numbers(
                connection: &mut $connection,
                statement: &'static FixedStatement,
                values: Parameters<'_>,
            ) -> sqlx::Result<Option<(i64, i64)>> {
                let query = bind!(query_as(statement.text), statement, values);
                query.fetch_optional(connection).await
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

run!("postgres", sqlx::Postgres, sqlx::PgConnection);
run!("mysql", sqlx::MySql, sqlx::MySqlConnection);
run!("sqlite", sqlx::Sqlite, sqlx::SqliteConnection);
