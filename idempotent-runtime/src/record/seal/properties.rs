//! A sealed result is read only under its key, with its line, by its seal key, and without any change.

use std::time::SystemTime;

use arbtest::arbitrary::{Result, Unstructured};

use super::*;
use crate::cases::cases;
use crate::key::fingerprint::Fingerprint;
use crate::record::form::Form;
use crate::record::key_tag::KeyTag;
use crate::record::owner::Owner;
use crate::world::Moment;

const KEY: &str = "idem:orders.pay:9e107d9d372bb6826bd81d3542a419d6";

fn keys(byte: u8) -> SealKeys {
    SealKey::new([byte; 32]).into()
}

fn stored(u: &mut Unstructured<'_>) -> Result<Stored> {
    let bytes = u.arbitrary::<Vec<u8>>()?;
    Ok(Stored {
        failure: u.arbitrary()?,
        schema: u.arbitrary()?,
        form: *u.choose(&Form::ALL)?,
        option_depth: u.arbitrary()?,
        bytes: Bytes::from([&b"secret"[..], &bytes].concat()),
        tail: Bytes::new(),
    })
}

fn sealed_at(now: SystemTime, keys: &SealKeys, stored: &Stored) -> Bytes {
    let payload = Fingerprint::of(&(7,)).expect("an integer");
    let head = Head {
        key: Some(KeyTag::for_key(KEY)),
        keys: None,
        owner: Owner::random(),
        payload: Some(&payload),
        now: Moment::at(now),
        ttl: Duration::from_mins(1),
    };
    keys.write(KEY, &head, &Kept::Result(stored.clone()))
}

fn sealed(keys: &SealKeys, stored: &Stored) -> Bytes {
    sealed_at(world::time_of_day(), keys, stored)
}

/// What `keys` read in a record; `None` if it is no record.
fn read(
    keys: &SealKeys,
    key: &str,
    record: &Bytes,
) -> Option<std::result::Result<Kept, &'static str>> {
    Record::read(record).map(|record| keys.read(key, &record))
}

#[test]
fn a_sealed_result_is_read_as_it_was_and_is_not_in_the_record() {
    cases(300, |u| {
        let stored = stored(u)?;
        let record = sealed(&keys(1), &stored);
        assert!(!record.windows(6).any(|bytes| bytes == b"secret"));
        assert_ne!(record, sealed(&keys(1), &stored), "the nonce is random");
        let is_failure = Record::read(&record).map(|record| record.is_failure());
        assert_eq!(is_failure, Some(stored.failure));
        assert_eq!(read(&keys(1), KEY, &record), Some(Ok(Kept::Result(stored))));
        Ok(())
    });
}

#[test]
fn a_changed_record_has_no_result() {
    let (mut foreign, mut no_record) = (0, 0);
    cases(300, |u| {
        let mut record = sealed(&keys(1), &stored(u)?).to_vec();
        let at = u.choose_index(record.len())?;
        match u.int_in_range(0..=3)? {
            0 => record[at] ^= 1 << u.int_in_range(0..=7)?,
            1 => record.truncate(at),
            2 => drop(record.remove(at)),
            _ => record.insert(at, u.arbitrary()?),
        }
        match read(&keys(1), KEY, &Bytes::from(record)) {
            Some(Ok(Kept::Result(stored))) => panic!("a changed record has the result {stored:?}"),
            // A changed codec says that there is no result.
            Some(_) => foreign += 1,
            None => no_record += 1,
        }
        Ok(())
    });
    assert!(foreign > 1000 && no_record > 1000, "{foreign} {no_record}");
}

fn example() -> Stored {
    Stored {
        failure: false,
        schema: 1,
        form: Form::Json,
        option_depth: 0,
        bytes: Bytes::from_static(b"\"paid\""),
        tail: Bytes::from_static(b"!"),
    }
}

#[test]
fn a_result_of_another_place_key_or_time_is_refused() {
    let record = sealed(&keys(1), &example());
    let elsewhere = KEY.replace("pay", "buy");
    assert_eq!(read(&keys(1), &elsewhere, &record), Some(Err(NOT_OPENED)));
    assert_eq!(read(&keys(2), KEY, &record), Some(Err(NOT_OPENED)));

    // The sealed bytes of one record after the line of another.
    let other = sealed(&keys(1), &example());
    let line = |record: &Bytes| {
        record
            .iter()
            .position(|byte| *byte == b'\n')
            .expect("a line")
            + 1
    };
    let moved = [&record[..line(&record)], &other[line(&other)..]].concat();
    assert_eq!(read(&keys(1), KEY, &moved.into()), Some(Err(NOT_OPENED)));

    let hours = |hours| world::time_of_day() - Duration::from_hours(hours);
    let again = sealed_at(hours(3), &keys(1), &example());
    assert_eq!(read(&keys(1), KEY, &again), Some(Err(TOO_OLD)));
    let late = sealed_at(hours(1), &keys(1), &example());
    assert!(matches!(
        read(&keys(1), KEY, &late),
        Some(Ok(Kept::Result(_)))
    ));
}

#[test]
fn an_unsealed_result_is_read_only_if_it_is_allowed() {
    let head = Head {
        key: Some(KeyTag::for_key(KEY)),
        keys: None,
        owner: Owner::random(),
        payload: None,
        now: Moment::now(),
        ttl: Duration::from_mins(1),
    };
    let record = call::done(&head, &Kept::Result(example()));
    assert_eq!(read(&keys(1), KEY, &record), Some(Err(NOT_SEALED)));
    let read = read(&keys(1).allow_unsealed(), KEY, &record);
    assert!(matches!(read, Some(Ok(Kept::Result(_)))), "{read:?}");
    for kept in [Kept::Nothing, Kept::TooLarge, Kept::Unencodable] {
        let record = keys(1).write(KEY, &head, &kept);
        assert_eq!(record, call::done(&head, &kept), "only results are sealed");
    }
}

#[test]
fn rotated_keys_open_what_the_earlier_keys_sealed() {
    let (old, new) = (SealKey::new([1; 32]), SealKey::new([2; 32]));
    let both = SealKeys::from([new.clone(), old.clone()]);
    let is_read = |keys: &SealKeys, record: &Bytes| {
        matches!(read(keys, KEY, record), Some(Ok(Kept::Result(_))))
    };
    let earlier = sealed(&old.into(), &example());
    let later = sealed(&both, &example());
    assert!(is_read(&both, &earlier) && is_read(&both, &later));
    let new = new.into();
    assert!(is_read(&new, &later) && !is_read(&new, &earlier));
}

#[test]
fn the_text_of_keys_is_read_and_never_shown() {
    let (one, two) = ("0f".repeat(32), "AB".repeat(32));
    let text = format!("# seals\n{one}\n\n{two} # opens\n");
    let keys = SealKeys::from_hex(&text).expect("two keys");
    let ids: Vec<_> = keys.all().map(|key| key.id).collect();
    assert_eq!(
        ids,
        [SealKey::new([0x0f; 32]).id, SealKey::new([0xab; 32]).id]
    );
    let shown = format!("{keys:?} {keys:#?}");
    assert!(
        !shown.contains("0f0f") && !shown.contains("15, 15"),
        "{shown}"
    );

    for wrong in [
        "",
        "# nothing",
        &one[1..],
        &format!("{one}0"),
        &one.replace('f', "g"),
    ] {
        let error = SealKeys::from_hex(wrong).expect_err("a mistake");
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("0f0f") && !shown.contains("0g0g"),
            "{shown}"
        );
    }
}

#[test]
fn the_id_of_a_seal_key_and_the_sealed_form_are_frozen() {
    assert_eq!(&keys(1).first.id, b"2d8dd870");
    // This time to live is never over.
    let line = "idem1 D owner=00000000000000000000000000000001 payload=- since=1970-01-01T00:00:00.250Z \
                for=18446744073709551615ms by=web-3:4242 codec=sealed:ok:2d8dd870\n";
    // Another implementation of XChaCha20-Poly1305 made these bytes.
    let digits = "000102030405060708090a0b0c0d0e0f101112131415161712a3b4eba7febcb2d37c5a7824024680c58796ec882ae9b6 \
                  0231a9eb4e8ecdd6d6d83733b261acb1b4";
    let digits = digits.replace(' ', "");
    let mut sealed = vec![0; digits.len() / 2];
    base16ct::mixed::decode(&digits, &mut sealed).expect("digits");
    let record = Bytes::from([line.as_bytes(), &sealed].concat());
    let mut stored = example();
    stored.tail = Bytes::new();
    assert_eq!(read(&keys(1), KEY, &record), Some(Ok(Kept::Result(stored))));
}
