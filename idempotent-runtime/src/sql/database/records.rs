//! What the store has to say to a database, in the words of that database.

use std::future::Future;

use bytes::Bytes;
use sqlx::pool::PoolOptions;
use sqlx::{Connection, Database};

use crate::sql::session::{Session, Way};
use crate::sql::url::Parameter;
use crate::store::Finding;

/// The statements of one database. Times to live are in microseconds, and its own clock counts them.
pub trait Dialect: Database {
    /// What a URL for `connect` may begin with, before the colon.
    const SCHEMES: &'static [&'static str];

    /// What may follow the `?` of a URL: what the client knows.
    const PARAMETERS: &'static [Parameter];

    /// Whether the answer to a statement that was given up comes before those to later ones, when it comes.
    const ANSWERS_LATE: bool = true;

    /// How often an operation is sent at most.
    const MOST_SENDS: u32 = 3;

    /// Puts `value` under `key` if nothing lives there; whether it did.
    fn claim(
        connection: &mut Self::Connection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Puts `value` where `expected` stands; whether it did.
    fn replace(
        connection: &mut Self::Connection,
        key: &str,
        expected: &[u8],
        value: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Puts `value` where `expected` stands, for as long as that would have stood; whether it did.
    fn exchange(
        connection: &mut Self::Connection,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Sets how long `expected` stands; whether it did.
    fn renew(
        connection: &mut Self::Connection,
        key: &str,
        expected: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Removes `expected`; whether it did.
    fn remove(
        connection: &mut Self::Connection,
        key: &str,
        expected: &[u8],
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// What stands under `key`, `most` bytes of it, and for how long yet.
    fn get(
        connection: &mut Self::Connection,
        key: &str,
        most: i32,
    ) -> impl Future<Output = sqlx::Result<Option<(Bytes, i64)>>> + Send;

    /// Removes up to `most` records that have expired; how many.
    fn purge(
        connection: &mut Self::Connection,
        most: u32,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// How to connect to `url`, whose scheme is one of [`SCHEMES`](Self::SCHEMES), and by what pool.
    fn options(
        url: &str,
    ) -> sqlx::Result<(<Self::Connection as Connection>::Options, PoolOptions<Self>)>;

    /// The way to the server; nothing, if there is none.
    fn way(options: &<Self::Connection as Connection>::Options) -> Option<Way<'_>>;

    /// What the server says of the session.
    fn session(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Session>> + Send;

    /// How many records wait for a purge, counted up to [`MANY`]; and the clock, in microseconds since 1970.
    fn backlog_and_clock(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<(i64, i64)>> + Send;

    /// What is to be said of how the database is set up.
    fn examine(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Vec<Finding>>> + Send;
}

/// More records than that need not be counted.
pub(crate) const MANY: i64 = 100_000;
