//! The statements that count attempts.
//!
//! One statement counts an attempt: it begins a window, or adds the attempt to the stored line. It
//! finds the row by its key. It changes nothing if the line already contains the attempt, or if the value is not a line of a
//! counter. Afterwards the stored line contains the attempt and its number.

use std::future::Future;

use idempotent_runtime::port::sql::count;
use idempotent_runtime::store::StoreError;

/// The statements that count.
pub trait Counting: sqlx::Database {
    /// Counts the attempt under `key`: as the first of a window of `micros` microseconds, or as one more.
    ///
    /// The number of the attempt comes from the statement that counts. A later statement would not find it if 32 other attempts
    /// were counted in between. `None`: the number is not known, and the attempt may be sent again.
    fn count(
        connection: &mut Self::Connection,
        key: &str,
        attempt: u128,
        micros: i64,
    ) -> impl Future<Output = sqlx::Result<Option<Counted>>> + Send;
}

/// A counted attempt.
#[derive(Debug)]
pub struct Counted {
    /// The number of the attempt, or why it was not counted.
    pub(crate) number: Result<u64, StoreError>,
    /// The microseconds until the end of the window.
    pub(crate) remaining: i64,
}

impl Counted {
    /// Finds an attempt in the line in which it was counted. `None`: the line no longer names the attempt.
    pub(crate) fn find(line: &[u8], attempt: u128, remaining: i64) -> Option<Self> {
        let number = count::number(line, attempt).transpose()?;
        Some(Self { number, remaining })
    }
}
