//! What the doctor asks a database.

use std::future::Future;

use idempotent_runtime::store::Level;
use sqlx::Database;

/// The queries of the doctor.
pub trait Examine: Database {
    /// The number of records that wait for a purge, counted up to [`MANY`], and the clock in microseconds since 1970.
    fn backlog_and_clock(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<(i64, i64)>> + Send;

    /// Checks how the database is set up.
    fn examine(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Vec<Check>>> + Send;
}

/// A check of how a database is set up.
#[derive(Debug)]
pub struct Check {
    /// Whether something is wrong.
    pub fails: bool,
    /// How bad it is.
    pub level: Level,
    /// What is wrong.
    pub found: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}

/// The largest number of records that is counted.
pub(crate) const MANY: i64 = 100_000;
