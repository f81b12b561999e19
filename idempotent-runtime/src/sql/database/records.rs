//! The statements of the store.

use std::future::{Future, ready};

use bytes::Bytes;
use sqlx::Database;

/// The statements of the store for one database. Times to live are in microseconds by the database's clock.
pub trait Records: Database {
    /// Whether the answer to a cancelled statement still arrives, and delays the answers to later statements.
    const ANSWERS_LATE: bool = true;

    /// The largest number of sends of one operation, including the first.
    const MAX_SENDS: u32 = 3;

    /// Stores `value` under `key` if no live record has the key. Returns whether it did. Where it does not replace an expired
    /// record, [`claim_expired`](Self::claim_expired) does.
    fn claim(
        connection: &mut Self::Connection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Is sent if [`claim`](Self::claim) stored nothing, and yet no live record has the key: claims the key, and replaces an expired
    /// record. `None` if the database needs no other statement, because `claim` replaces expired records.
    fn claim_expired(
        connection: &mut Self::Connection,
        key: &str,
        value: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<bool>>> + Send {
        let _ = (connection, key, value, micros);
        ready(Ok(None))
    }

    /// Replaces `expected` by `value`. Returns whether it did.
    fn replace(
        connection: &mut Self::Connection,
        key: &str,
        expected: &[u8],
        value: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Replaces `expected` by `value` and does not change the remaining time. Returns whether it did.
    fn exchange(
        connection: &mut Self::Connection,
        key: &str,
        expected: &[u8],
        value: &[u8],
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Sets the remaining time of `expected`. Returns whether it did.
    fn renew(
        connection: &mut Self::Connection,
        key: &str,
        expected: &[u8],
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Removes `expected`. Returns whether it did.
    fn remove(
        connection: &mut Self::Connection,
        key: &str,
        expected: &[u8],
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// The first `most` bytes of the live record under `key`, and its remaining microseconds.
    fn get(
        connection: &mut Self::Connection,
        key: &str,
        most: i32,
    ) -> impl Future<Output = sqlx::Result<Option<(Bytes, i64)>>> + Send;

    /// Removes up to `most` expired records. Returns their number.
    fn purge(
        connection: &mut Self::Connection,
        most: u32,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// The first `most` rows whose keys are not before `first`, in the order of the bytes of their keys, expired rows included.
    fn list(
        connection: &mut Self::Connection,
        first: &str,
        most: i64,
    ) -> impl Future<Output = sqlx::Result<Vec<ListedRow>>> + Send;
}

/// A row of a listing: its key, the first [`LISTED_BYTES`](crate::store::LISTED_BYTES) bytes of its record, and its remaining
/// microseconds, which are not positive if it has expired.
pub(crate) type ListedRow = (String, Vec<u8>, i64);
