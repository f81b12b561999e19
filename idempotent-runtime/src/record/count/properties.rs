//! Every counted attempt is read, and any bytes under a key are read or refused.

use arbtest::arbitrary::{Result, Unstructured};

use super::*;
use crate::cases::cases;

/// Attempts. Many of them are repeated.
fn attempts(u: &mut Unstructured<'_>) -> Result<Vec<u128>> {
    let count = u.int_in_range(1..=70)?;
    (0..count)
        .map(|_| Ok(u.int_in_range(0..=49_u8)?.into()))
        .collect()
}

fn record(attempts: &[u128]) -> Bytes {
    attempts[1..]
        .iter()
        .fold(first(attempts[0]), |record, attempt| {
            let next = next(&record, *attempt).expect("a record");
            next.record.unwrap_or(record)
        })
}

#[test]
fn each_attempt_has_the_number_of_its_place() {
    cases(100, |u| {
        let attempts = attempts(u)?;
        let mut counted = vec![attempts[0]];
        let mut record = first(attempts[0]);
        for attempt in attempts {
            let remembered = counted.len().saturating_sub(REMEMBERED);
            let before = counted[remembered..]
                .iter()
                .rposition(|known| *known == attempt);
            if before.is_none() {
                counted.push(attempt);
            }
            let number = before.map_or(counted.len(), |place| remembered + place + 1);
            let next = next(&record, attempt).expect("a record");
            assert_eq!(next.attempt, number as u64);
            assert_eq!(next.record.is_some(), before.is_none());
            record = next.record.unwrap_or(record);
        }
        Ok(())
    });
}

/// The bytes of a record after a few changes, or arbitrary bytes.
fn broken(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if u.ratio(1, 8)? {
        return u.arbitrary();
    }
    let mut bytes = record(&attempts(u)?).to_vec();
    for _ in 0..u.int_in_range(0..=2)? {
        // Half of the changes are near the count, because the list of attempts is much longer.
        let most = if u.arbitrary()? { 20 } else { bytes.len() };
        let at = u.choose_index(bytes.len().min(most).max(1))?;
        match u.int_in_range(0..=5)? {
            _ if bytes.is_empty() => bytes.push(u.arbitrary()?),
            0 => bytes[at] = u.arbitrary()?,
            1 => bytes[at] = *u.choose(b" \n,=+-09afFC\xff\0")?,
            2 => bytes.insert(at, *u.choose(b" \n,=+-09afFC\xff\0")?),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            _ => bytes.extend_from_within(at..),
        }
    }
    Ok(bytes)
}

#[test]
fn any_bytes_are_read_or_refused() {
    let (mut foreign, mut ours) = (0, 0);
    cases(200, |u| {
        let bytes = broken(u)?;
        let Ok(next) = next(&bytes, u.arbitrary()?) else {
            foreign += 1;
            return Ok(());
        };
        ours += 1;
        let (count, last) = read(&bytes).expect("the record that `next` has read");
        assert_eq!(
            write(count, last),
            bytes,
            "a record is written as it was read"
        );
        assert!((1..=MOST).contains(&next.attempt));
        if let Some(record) = next.record {
            assert!(read(&record).is_some_and(|(counted, _)| counted == next.attempt));
        }
        Ok(())
    });
    assert!(
        foreign > 1000 && ours > 1000,
        "{foreign} foreign, {ours} own records"
    );
}
