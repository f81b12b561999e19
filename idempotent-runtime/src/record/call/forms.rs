//! Lines of this version and of earlier builds are read, and lines in any other form are refused.

use super::*;

/// A line that an earlier build wrote.
const OLD: &str = "idem1 D owner=0f1e2d3c4b5a69780f1e2d3c4b5a6978 payload=9e107d9d372bb6826bd81d3542a419d6 \
                   since=2026-11-21T09:30:00.250Z for=60000ms by=web-3.eu_west:4242 codec=json:ok:0:9f86d081\n7";

/// The same line as this version writes it.
const NEW: &str = "idem2 D Dx4tPEtaaXgPHi08S1ppeA 1795253400250 60000 web-3.eu_west:4242 \
                   nhB9nTcrtoJr2B01QqQZ1g json:ok:0:9f86d081\n7";

#[test]
fn a_line_of_each_version_is_read() {
    let long = format!("{}:4294967295", "h".repeat(64));
    let holders = ["web-3.eu_west:4242", ":1", &long];
    for (version, holder) in [OLD, NEW]
        .iter()
        .flat_map(|line| holders.map(|by| (line, by)))
    {
        let line = version.replace("web-3.eu_west:4242", holder);
        let line = Bytes::from(line);
        let record = Record::read(&line).expect("a record");
        assert_eq!(record.state, RecordState::Done);
        assert_eq!(record.since, at(1_795_253_400_250));
        assert_eq!(record.ttl, Duration::from_mins(1));
        assert_eq!(record.holder(), holder);
        assert_eq!(record.since_text(), "2026-11-21T09:30:00.250Z");
        assert!(matches!(record.kept(), Kept::Result(stored) if stored.bytes == "7"));
    }
}

#[test]
fn a_payload_of_each_version_is_compared() {
    let (one, other) = (
        Fingerprint::of(&(1,)).unwrap(),
        Fingerprint::of(&(2,)).unwrap(),
    );
    let hex = OLD.replace("9e107d9d372bb6826bd81d3542a419d6", &one.to_string());
    let mut digits = [0; 22];
    let digits = base64::write(one.as_bytes(), &mut digits);
    let base64 = NEW.replace("nhB9nTcrtoJr2B01QqQZ1g", str::from_utf8(digits).unwrap());
    for line in [hex, base64].map(Bytes::from) {
        let record = Record::read(&line).expect("a record");
        assert!(!record.differs_from(Some(&one)) && record.differs_from(Some(&other)));
    }
}

#[test]
fn a_field_in_another_form_is_refused() {
    let long = "h".repeat(65) + ":1";
    let longest = "h".repeat(8_000_000) + ":1";
    let times = [
        "2026-11-21T09:30:00Z",
        "2026-11-21 09:30:00.250Z",
        "2026-13-21T09:30:00.250Z",
    ];
    let fields: [(&str, &[&str]); 5] = [
        (
            "web-3.eu_west:4242",
            &[
                "web\x1b[2J:1",
                "web\r:1",
                "web\u{2028}:1",
                "web\u{202e}:1",
                "wéb:1",
                "web\0:1",
                "web\t:1",
                "web",
                "web:",
                "web:x",
                "web:01",
                "web:+1",
                "web:4294967296",
                "web:1:1",
                "",
                &long,
                &longest,
            ],
        ),
        (
            "0f1e2d3c4b5a69780f1e2d3c4b5a6978",
            &[
                "0F1e2d3c4b5a69780f1e2d3c4b5a6978",
                "0f1e",
                "\x1bf1e2d3c4b5a69780f1e2d3c4b5a6978",
            ],
        ),
        (
            "9e107d9d372bb6826bd81d3542a419d6",
            &["9E107d9d372bb6826bd81d3542a419d6", "9e10", "--", ""],
        ),
        ("2026-11-21T09:30:00.250Z", &times),
        (
            "60000ms",
            &["060000ms", "+60000ms", "60000", "99999999999999999999ms"],
        ),
    ];
    let new_fields: [(&str, &[&str]); 5] = [
        fields[0],
        (
            "Dx4tPEtaaXgPHi08S1ppeA",
            &[
                "Dx4tPEtaaXgPHi08S1ppeA==",
                "Dx4t",
                "",
                "\x1bx4tPEtaaXgPHi08S1ppeA",
            ],
        ),
        (
            "nhB9nTcrtoJr2B01QqQZ1g",
            &[
                "nhB9nTcrtoJr2B01QqQZ1g==",
                "nhB9",
                "-nhB9nTcrtoJr2B01QqQZ1g",
                "--",
                "",
            ],
        ),
        (
            "1795253400250",
            &["01795253400250", "-1", "", "253402300800000"],
        ),
        (
            " 60000 ",
            &[" 060000 ", " 60000ms ", " 99999999999999999999 "],
        ),
    ];
    let of = |line, fields: [_; 5]| fields.map(|(good, forged)| (line, good, forged));
    for (line, good, forged) in of(OLD, fields).into_iter().chain(of(NEW, new_fields)) {
        for forged in forged {
            let line = Bytes::from(line.replacen(good, forged, 1));
            assert_eq!(
                Record::read(&line),
                None,
                "{good:?}: {:.80}",
                forged.escape_debug()
            );
        }
    }
}

#[test]
fn a_codec_in_another_form_is_refused() {
    for (good, forged) in [
        ("codec=json:ok:0:9f86d081\n7", "codec=-\n7"),
        ("codec=json:ok:0:9f86d081\n7", "codec=too-large\n7"),
        (
            "codec=json:ok:0:9f86d081",
            "codec=js\x1b[2Jon:ok:0:9f86d081",
        ),
        ("codec=json:ok:0:9f86d081", "codec=json:ok:+1:9f86d081"),
        ("codec=json:ok:0:9f86d081", "codec=json:ok:0:9F86D081"),
        ("codec=json:ok:0:9f86d081", "codec="),
        (" D ", " R "),
    ] {
        for line in [OLD, NEW] {
            let short = |text: &str| text.replace("codec=", "");
            let line = if line == OLD {
                line.replacen(good, forged, 1)
            } else {
                line.replacen(&short(good), &short(forged), 1)
            };
            assert_eq!(Record::read(&Bytes::from(line)), None, "{forged:?}");
        }
    }
}

#[test]
fn a_line_has_no_payload_and_no_codec_or_both() {
    let fields = " nhB9nTcrtoJr2B01QqQZ1g json:ok:0:9f86d081\n7";
    for (ends, is_read) in [
        ("\n", true),
        (" - too-large\n", true),
        (" nhB9nTcrtoJr2B01QqQZ1g -\n", true),
        (" - -\n", false),
        (" -\n", false),
        (" nhB9nTcrtoJr2B01QqQZ1g\n", false),
        (" \n", false),
        ("", false),
    ] {
        let line = Bytes::from(NEW.replace(fields, ends));
        assert_eq!(Record::read(&line).is_some(), is_read, "{ends:?}");
    }
}

fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}
