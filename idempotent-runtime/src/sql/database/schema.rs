//! The tables.

use std::future::Future;

/// What the tables are made by.
pub trait Schema: sqlx::Database {
    /// The statements that make the tables, and note their version.
    const SCHEMA: &'static str;

    /// The same, by one process after the other.
    fn migration() -> String;

    /// The version of the tables, if one is noted. One round trip.
    fn version(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;
}

/// Writes [`Schema::version`] for a connection.
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
