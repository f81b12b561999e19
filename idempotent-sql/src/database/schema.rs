//! The statements that make the tables.

use std::future::Future;

/// The tables of a database.
pub trait Schema: sqlx::Database {
    /// The statements that make the tables and store their version.
    const SCHEMA: &'static str;

    /// The same statements under a lock, so that one process at a time runs them.
    fn migration() -> String;

    /// The version of the tables, if one is stored. One round trip.
    fn version(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;
}

/// Implements [`Schema::version`] for a type of connection.
macro_rules! version {
    ($connection:ty) => {
        async fn version(connection: &mut $connection) -> sqlx::Result<Option<i64>> {
            sqlx::query_scalar("SELECT max(version) FROM idempotence_version")
                .fetch_one(connection)
                .await
        }
    };
}

pub(crate) use version;
