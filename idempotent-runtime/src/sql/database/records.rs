//! The statements of the store, in the words of each database.

use std::future::Future;

use bytes::Bytes;
use sqlx::Database;

/// The statements of one database. Times to live are in microseconds, and its own clock counts them.
pub trait Records: Database {
    /// Whether the answer to a statement that was given up comes before those to later ones, when it comes.
    const ANSWERS_LATE: bool = true;

    /// How often an operation is sent at most.
    const MAX_SENDS: u32 = 3;

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
}
