//! Durations in microseconds. Statements bind them, and the database adds them to its own clock.

use std::time::Duration;

/// The longest time to live. A database refuses a date past the end of its calendar.
const THOUSAND_YEARS: i64 = 1000 * 365 * 24 * 60 * 60 * 1_000_000;

/// `ttl` in whole microseconds: rounded up, and at least a millisecond.
pub fn micros(ttl: Duration) -> i64 {
    let micros = ttl.as_nanos().div_ceil(1000);
    i64::try_from(micros).map_or(THOUSAND_YEARS, |micros| micros.clamp(1000, THOUSAND_YEARS))
}

/// The clock of SQLite in microseconds since 1970. It ticks in milliseconds, and has one value during a statement.
#[doc(hidden)]
#[macro_export]
macro_rules! __sqlite_now {
    () => {
        "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
    };
}

/// The end of a time to live in microseconds. One tick of the clock is added, so that a record made just before a tick does not
/// expire early.
#[doc(hidden)]
#[macro_export]
macro_rules! __sqlite_end {
    ($micros:literal) => {
        concat!($crate::__sqlite_now!(), " + 1000 + ", $micros)
    };
}

pub use crate::{__sqlite_end as sqlite_end, __sqlite_now as sqlite_now};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_rounded_up_and_capped() {
        for (ttl, expected) in [
            (Duration::ZERO, 1000),
            (Duration::from_nanos(1), 1000),
            (Duration::from_millis(1), 1000),
            (Duration::from_nanos(1_000_001), 1001),
            (Duration::from_secs(30), 30_000_000),
            (Duration::MAX, THOUSAND_YEARS),
        ] {
            assert_eq!(micros(ttl), expected, "{ttl:?}");
        }
    }
}
