//! How attempts are counted, in the words of each database.
//!
//! One statement counts: it begins a window, or puts the [line](crate::record::count) with one more attempt in the place of the one
//! that stands, as long as that is good. It finds the row by its key, and keeps what it must not count: a line that has the attempt
//! already, and whatever is no such line. What stands there then has the attempt in it, and so its number.

use std::future::Future;

use bytes::Bytes;

/// The statements that count.
pub trait Counting: sqlx::Database {
    /// Counts the attempt `id` under `key`, as the `first` of a window of so many microseconds or as one more; the line that stands there
    /// afterwards, and for how long yet.
    fn count(
        connection: &mut Self::Connection,
        key: &str,
        first: &[u8],
        id: &str,
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<(Bytes, i64)>>> + Send;
}
