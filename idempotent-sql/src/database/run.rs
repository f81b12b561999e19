//! Runs the statements of the store and of the building blocks.

use std::future::Future;

use idempotent_driver::port::{Run, bind};
use sqlx::{Executor, QueryBuilder, query, query_as};

use super::statement::{FixedStatement, Parameters};

/// Runs statements. Each database has its own implementation, for the same reason as [`Run`].
pub trait Execute: Run {
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
}

macro_rules! execute {
    ($feature:literal, $database:ty, $connection:ty) => {
        #[cfg(feature = $feature)]
        impl Execute for $database {
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
                let query = bind!(query(statement.text), statement.values(values));
                Ok(connection.execute(query).await?.rows_affected())
            }

            async fn read_bytes(
                connection: &mut $connection,
                statement: &'static FixedStatement,
                values: Parameters<'_>,
            ) -> sqlx::Result<Option<(Vec<u8>, i64)>> {
                let query = bind!(query_as(statement.text), statement.values(values));
                query.fetch_optional(connection).await
            }

            async fn read_numbers(
                connection: &mut $connection,
                statement: &'static FixedStatement,
                values: Parameters<'_>,
            ) -> sqlx::Result<Option<(i64, i64)>> {
                let query = bind!(query_as(statement.text), statement.values(values));
                query.fetch_optional(connection).await
            }
        }
    };
}

execute!("postgres", sqlx::Postgres, sqlx::PgConnection);
execute!("mysql", sqlx::MySql, sqlx::MySqlConnection);
execute!("sqlite", sqlx::Sqlite, sqlx::SqliteConnection);
