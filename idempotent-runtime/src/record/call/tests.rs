//! The line of a record is written and read in its frozen form.

use super::*;
use crate::record::call::reference::Reference;
use crate::record::form::Form;
use crate::record::line::HOST;

fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

fn head(owner: Owner, payload: Option<&Fingerprint>, now: Moment, ttl: Duration) -> Head<'_> {
    Head {
        key: None,
        keys: None,
        owner,
        payload,
        now,
        ttl,
    }
}

fn running(owner: Owner, payload: Option<&Fingerprint>, now: Moment, ttl: Duration) -> Bytes {
    super::running(&head(owner, payload, now, ttl))
}

fn done(
    owner: Owner,
    payload: Option<&Fingerprint>,
    now: Moment,
    ttl: Duration,
    kept: &Kept,
) -> Bytes {
    super::done(&head(owner, payload, now, ttl), kept)
}

fn moment(millis: u64) -> Moment {
    Moment::at(at(millis))
}

fn holder() -> String {
    format!("{}:{}", *HOST, std::process::id())
}

#[test]
fn the_line_is_frozen() {
    let line = running(
        Owner(0x0f1e_2d3c),
        None,
        moment(1_795_253_400_250),
        Duration::from_secs(33),
    );
    assert_eq!(
        line,
        format!(
            "idem2 R AAAAAAAAAAAAAAAADx4tPA 1795253400250 33000 {}\n",
            holder()
        )
    );
}

#[test]
fn a_written_record_is_read() {
    let minute = Duration::from_mins(1);
    let line = done(Owner::random(), None, moment(5000), minute, &Kept::Nothing);
    let record = Record::read(&line).unwrap();
    assert_eq!(record.state, RecordState::Done);
    assert_eq!(record.kept(), Kept::Nothing);
    assert_eq!(record.holder(), holder());
    assert_eq!(record.age(at(7000)), Duration::from_secs(2));
    assert_eq!(
        record.remaining_at(record.age(at(7000))),
        Duration::from_secs(58)
    );
    assert_eq!(
        record.remaining_at(record.age(at(99_000))),
        Duration::from_mins(1)
    );
    assert_eq!(record.age(at(1000)), Duration::ZERO);
}

#[test]
fn the_time_of_a_wrong_clock_is_written_and_read() {
    for since in [
        at(0),
        SystemTime::UNIX_EPOCH - Duration::from_secs(5),
        at(253_402_300_799_999),
        at(999_999_999_999_999),
    ] {
        let line = running(Owner::random(), None, Moment::at(since), Duration::MAX);
        assert!(Record::read(&line).is_some(), "{line:?}");
    }
}

#[test]
fn foreign_bytes_are_not_a_record() {
    let good = running(Owner::random(), None, moment(5000), Duration::from_mins(1));
    let good = str::from_utf8(&good).unwrap();
    for foreign in [
        "",
        "1",
        "\n",
        &good.replace("idem2", "idem3"),
        &good.replace(" R ", " X "),
        &good.replace('\n', " - - more=1\n"),
        good.trim_end(),
    ] {
        let foreign = Bytes::copy_from_slice(foreign.as_bytes());
        assert_eq!(Record::read(&foreign), None, "{foreign:?}");
    }
    assert_eq!(Record::read(&Bytes::from_static(&[0xff, b'\n'])), None);
}

fn result(bytes: &'static [u8]) -> Kept {
    Kept::Result(Stored {
        failure: true,
        schema: 0x9f_86d0,
        form: Form::Json,
        option_depth: 2,
        bytes: Bytes::from_static(bytes),
        tail: Bytes::new(),
    })
}

#[test]
fn a_marked_claim_is_a_running_claim_for_a_reader_that_does_not_know_the_mark() {
    let minute = Duration::from_mins(1);
    let marked = marked(&head(Owner(1), None, moment(250), minute));
    let expected = format!(
        "idem2 R AAAAAAAAAAAAAAAAAAAAAQ 250 60000 {} - unencodable\n",
        holder()
    );
    assert_eq!(marked, expected);
    let read = Record::read(&marked).expect("a record");
    assert_eq!((read.state, read.is_marked()), (RecordState::Running, true));
    // The reader of the tests was written before the mark.
    let independent = Reference::read(&marked).expect("a record");
    assert_eq!(independent.state, RecordState::Running);
    let claim = running(Owner(1), None, moment(250), minute);
    assert!(!Record::read(&claim).expect("a record").is_marked());
}

#[test]
fn a_running_claim_may_live_longer_by_the_slack_of_its_store_and_an_election() {
    let (minute, millis) = (Duration::from_mins(1), Duration::from_millis);
    let claim = running(Owner(1), None, moment(250), minute);
    let claim = Record::read(&claim).expect("a record");
    for (slack, longer, is_kept) in [
        (0, 1000, false),
        (0, 1001, true),
        (2500, 5500, false),
        (2500, 20_000, true),
    ] {
        let remaining = Some(minute + millis(longer));
        let found = claim.is_kept_claim(remaining, millis(slack));
        assert_eq!(found, is_kept, "{longer} with {slack}");
    }
}

#[test]
fn the_line_before_a_result_is_frozen() {
    let payload = Fingerprint::of(&(42,)).unwrap();
    let minute = Duration::from_mins(1);
    let kept = result(b"[1,\n2]");
    let record = done(Owner(1), Some(&payload), moment(250), minute, &kept);
    let mut digits = [0; 22];
    let payload = str::from_utf8(base64::write(payload.as_bytes(), &mut digits)).unwrap();
    let expected = format!(
        "idem2 D AAAAAAAAAAAAAAAAAAAAAQ 250 60000 {} {payload} json:err:2:009f86d0\n[1,\n2]",
        holder()
    );
    assert_eq!(record, expected);
}

#[test]
fn a_stored_result_is_read() {
    for kept in [
        Kept::Nothing,
        Kept::TooLarge,
        Kept::Unencodable,
        result(b""),
        result(b"{\"text\":\"a b\\n\"}"),
        result(&[0xff, b'\n', b' ']),
    ] {
        let minute = Duration::from_mins(1);
        let record = done(Owner::random(), None, moment(5000), minute, &kept);
        assert_eq!(Record::read(&record).unwrap().kept(), kept);
    }
}

#[test]
fn a_result_of_a_later_version_is_unreadable() {
    let record = done(
        Owner::random(),
        None,
        moment(5000),
        Duration::from_mins(1),
        &result(b"1"),
    );
    let record = str::from_utf8(&record).unwrap();
    for codec in [
        "cbor:err:2:009f86d0",
        "json:err:2",
        "json:err:2:x",
        "json:ok:0:1:1",
        "json:ok:00:009f86d0",
        "json:ok:0:9f86d0",
        "gone",
    ] {
        let later = Bytes::from(record.replace("json:err:2:009f86d0", codec));
        assert_eq!(
            Record::read(&later).unwrap().kept(),
            Kept::Unreadable,
            "{codec}"
        );
    }
}

#[test]
fn only_two_payloads_can_differ() {
    let (one, other) = (
        Fingerprint::of(&(1,)).unwrap(),
        Fingerprint::of(&(2,)).unwrap(),
    );
    for (written, requested, differ) in [
        (Some(&one), Some(&other), true),
        (Some(&one), Some(&one), false),
        (None, Some(&one), false),
        (Some(&one), None, false),
        (None, None, false),
    ] {
        let line = running(
            Owner::random(),
            written,
            moment(5000),
            Duration::from_mins(1),
        );
        let record = Record::read(&line).unwrap();
        assert_eq!(
            record.differs_from(requested),
            differ,
            "{written:?} {requested:?}"
        );
    }
}
