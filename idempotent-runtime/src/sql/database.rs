//! The databases there are, behind what the parts of this module need of them.

use std::future::Future;

use sqlx::{AssertSqlSafe, Executor, QueryBuilder};

use self::counting::Counting;
use self::lock::Statements;
use self::records::Dialect;
use self::rows::Dedup;
use self::syntax::Syntax;
use super::migrate::Schema;

pub(super) mod counting;
pub(super) mod lock;
pub(super) mod records;
pub(super) mod rows;
pub(super) mod syntax;
pub(super) mod time;

/// A database that this crate knows: `Postgres`, `MySql` (MariaDB, too) or `Sqlite`.
pub trait Database: sqlx::Database + Sealed {}

/// What the parts of this module need of a database. The futures are written out per database, because sqlx's
/// bounds for all of them at once do not hold behind a reference.
pub trait Sealed: Schema + Dialect + Counting + Syntax + Dedup + Statements {
    /// How a transaction begins that will write, unless it begins as every other.
    const BEGIN: Option<&'static str>;

    /// Runs a statement; how many rows it touched (`MySql`: matched). One round trip.
    fn execute(
        connection: &mut Self::Connection,
        statement: QueryBuilder<Self>,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Runs a statement to its end; its first row. One round trip.
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

macro_rules! database {
    ($feature:literal, $database:ty, $connection:ty, $begin:expr) => {
        #[cfg(feature = $feature)]
        impl Database for $database {}

        #[cfg(feature = $feature)]
        impl Sealed for $database {
            const BEGIN: Option<&'static str> = $begin;

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
                // All rows, because the client of SQLite hands one out before the statement is committed, and then
                // does not tell if that fails.
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

database!("postgres", sqlx::Postgres, sqlx::PgConnection, None);
database!("mysql", sqlx::MySql, sqlx::MySqlConnection, None);
// One that reads before it writes may be refused in the middle.
database!(
    "sqlite",
    sqlx::Sqlite,
    sqlx::SqliteConnection,
    Some("BEGIN IMMEDIATE")
);
