//! The record of a counter: one readable line, the same in all stores.
//!
//! ```text
//! idem1 C count=3 last=0f1e2d3c4b5a6978,9f86d081884c7d65,03ac674216f3e15c
//! ```
//!
//! `last` names the latest attempts, the oldest first. The number of the last attempt is `count`, so a repeated attempt
//! finds its number. The Redis script and the SQL statements read and write the same line.

use bytes::Bytes;

use crate::error::store::{StoreError, StoreErrorKind};

/// How many attempts a record remembers. An older attempt that is repeated is counted again.
const REMEMBERED: usize = 32;

/// Returns the record of the first attempt of a window.
pub fn first(attempt: u128) -> Bytes {
    write(1, &id(attempt))
}

/// The outcome of an attempt that finds a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) attempt: u64,
    /// The new record; `None` if the attempt was counted before.
    pub(crate) record: Option<Bytes>,
}

/// Counts `attempt` after the attempts in the record `stored`.
///
/// # Errors
///
/// If `stored` is not the record of a counter.
pub(crate) fn next(stored: &[u8], attempt: u128) -> Result<Next, StoreError> {
    let (count, last) = read(stored).ok_or_else(foreign)?;
    let id = id(attempt);
    if let Some(later) = last.split(',').rev().position(|known| known == id) {
        return Ok(Next {
            attempt: count - later as u64,
            record: None,
        });
    }
    let count = MOST.min(count + 1);
    let last = match last.split_once(',') {
        Some((_, kept)) if last.len() == REMEMBERED * WIDTH - 1 => kept,
        _ => last,
    };
    Ok(Next {
        attempt: count,
        record: Some(write(count, &format!("{last},{id}"))),
    })
}

/// Returns the number of an attempt from the record after it was counted. `None` if the record no longer names the attempt,
/// because too many other attempts were counted after it.
///
/// # Errors
///
/// If `stored` is not the record of a counter.
pub fn number(stored: &[u8], attempt: u128) -> Result<Option<u64>, StoreError> {
    let next = next(stored, attempt)?;
    Ok(next.record.is_none().then_some(next.attempt))
}

/// The error for bytes under the key that another program or a later version wrote.
pub fn foreign() -> StoreError {
    let what = "the bytes under the key are no counter of this version";
    StoreError::new(StoreErrorKind::Misconfigured, what)
        .reason("has other bytes under the key than a counter of this version")
        .foreign_record()
}

fn read(stored: &[u8]) -> Option<(u64, &str)> {
    let line = str::from_utf8(stored).ok()?.strip_suffix('\n')?;
    let (digits, last) = line.strip_prefix(COUNT)?.split_once(LAST)?;
    let count: u64 = digits.parse().ok()?;
    // Accepts only the form that `write` writes: `parse` alone would also read `+3` and `03`.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let is_id = |id: &str| {
        let hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        id.len() == WIDTH - 1 && id.bytes().all(hex)
    };
    let kept = last.split(',').count();
    let remembered = count.min(REMEMBERED as u64) == kept as u64;
    (plain && count <= MOST && remembered && last.split(',').all(is_id)).then_some((count, last))
}

fn write(count: u64, last: &str) -> Bytes {
    let mut digits = itoa::Buffer::new();
    Bytes::from([COUNT, digits.format(count), LAST, last, "\n"].concat())
}

/// Returns half of an attempt's bits: enough to distinguish the few attempts that a record remembers.
pub fn id(attempt: u128) -> String {
    format!("{:016x}", attempt & u128::from(u64::MAX))
}

const COUNT: &str = "idem1 C count=";
const LAST: &str = " last=";
/// The bytes of one attempt and its comma.
const WIDTH: usize = 17;
/// Fifteen digits, because the Redis scripts count in floats. A count that reaches this number stays there.
const MOST: u64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the record after these attempts, and the number of each attempt.
    fn counted(attempts: impl IntoIterator<Item = u128>) -> (Bytes, Vec<u64>) {
        let mut attempts = attempts.into_iter();
        let mut record = first(attempts.next().expect("at least one attempt"));
        let mut numbers = vec![1];
        for attempt in attempts {
            let next = next(&record, attempt).expect("a record");
            record = next.record.unwrap_or(record);
            numbers.push(next.attempt);
        }
        (record, numbers)
    }

    #[test]
    fn the_line_is_frozen() {
        let (record, _) = counted([0x0f1e, u128::MAX, 3]);
        let line = "idem1 C count=3 last=0000000000000f1e,ffffffffffffffff,0000000000000003\n";
        assert_eq!(record, line);
    }

    #[test]
    fn a_repeated_attempt_has_its_first_number() {
        let (record, numbers) = counted([7, 8, 7, 9, 8, 9, 7]);
        assert_eq!(numbers, [1, 2, 1, 3, 2, 3, 1]);
        assert_eq!(record, counted([7, 8, 9]).0);
    }

    #[test]
    fn an_attempt_is_remembered_until_too_many_others_are_counted() {
        let others = REMEMBERED as u128;
        let (_, numbers) = counted((0..others).chain([0]));
        assert_eq!(numbers.last(), Some(&1));
        let (record, numbers) = counted((0..=others).chain([0]));
        assert_eq!(numbers.last(), Some(&(REMEMBERED as u64 + 2)));
        assert_eq!(
            record.len(),
            COUNT.len() + 2 + LAST.len() + REMEMBERED * WIDTH
        );
    }

    #[test]
    fn a_count_stops_at_the_largest_number() {
        let last = vec!["0000000000000001"; REMEMBERED].join(",");
        let most = write(MOST, &last);
        let next = next(&most, 2).expect("a record");
        assert_eq!(next.attempt, MOST);
        assert!(read(&next.record.expect("counted")).is_some());
        assert_eq!(read(&write(MOST + 1, &last)), None);
    }

    #[test]
    fn foreign_bytes_are_an_error() {
        let good = "idem1 C count=2 last=0000000000000001,0000000000000002\n";
        assert!(next(good.as_bytes(), 3).is_ok());
        for foreign in [
            "",
            "2",
            good.trim_end(),
            &good.replace("idem1", "idem2"),
            &good.replace("C ", "R "),
            &good.replace("=2", "=0"),
            &good.replace("=2", "=02"),
            &good.replace("=2", "=+2"),
            &good.replace("=2", "=3"),
            &good.replace("=2", "=99999999999999999999"),
            &good.replace(",0000000000000002", ""),
            &good.replace(",0", ",g"),
            &good.replace(",0", ",F"),
            &good.replace(',', " "),
            &good.replace('\n', ",\n"),
            &format!("{good}\n"),
        ] {
            let error = next(foreign.as_bytes(), 3).expect_err(foreign);
            assert_eq!(error.kind(), StoreErrorKind::Misconfigured);
        }
    }
}

#[cfg(test)]
mod properties;
