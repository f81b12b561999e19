//! The statements that count attempts.
//!
//! One statement counts: it begins a window, or replaces a valid [line](crate::record::count) by the same line with one more
//! attempt. It finds the row by its key. It changes neither a line that contains the attempt already nor a value that is no
//! such line. Afterwards the stored line contains the attempt, and so its number.

use std::future::Future;

use bytes::Bytes;

/// The statements that count.
pub trait Counting: sqlx::Database {
    /// Counts the attempt `id` under `key`: as the `first` of a window of `micros` microseconds, or as one more. Returns the
    /// line that is stored afterwards, and its remaining time in microseconds.
    fn count(
        connection: &mut Self::Connection,
        key: &str,
        first: &[u8],
        id: &str,
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<(Bytes, i64)>>> + Send;
}
