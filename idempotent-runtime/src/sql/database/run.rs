//! Runs statements.

use std::future::Future;

use sqlx::{AssertSqlSafe, Executor, QueryBuilder};

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

    /// Runs statements without values, separated by semicolons. One round trip.
    fn execute_all(
        connection: &mut Self::Connection,
        statements: String,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
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
