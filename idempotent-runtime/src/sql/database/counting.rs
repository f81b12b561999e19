//! The statements that count attempts.
//!
//! One statement counts an attempt: it begins a window, or adds the attempt to the stored [line](crate::record::count). It
//! finds the row by its key. It changes nothing if the line already contains the attempt, or if the value is not a line of a
//! counter. Afterwards the stored line contains the attempt and its number.

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
