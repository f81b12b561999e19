//! The record of the steps of a call: a readable line, then an entry for each step that is done.
//!
//! ```text
//! idem1 S steps=2
//! 0 flight src/trip.rs:14 101
//! idem2 D Dx4tPEtaaXiHlqW0w9Lh8A 1795253400250 33000 9f86d081..web-3:4242 - json:ok:0:9f86d081
//! "LH 400"
//! 1 hotel src/trip.rs:15 98
//! …
//! ```
//!
//! An entry has the position of the step in its call, its name, the place in the code that ran it, and the length of what follows its
//! line: the record of a call that is done with the result of the step, as [`call`](super::call) describes it. The line break after that
//! record is not counted. Entries are in the order in which their steps ended.

use bytes::Bytes;

/// A step that is done, as its record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepEntry {
    /// How many steps of the call began before it.
    pub(crate) position: usize,
    pub(crate) name: String,
    /// The place in the code, as `src/trip.rs:14`.
    pub(crate) place: String,
    /// The record of a call that is done, with the result of the step.
    pub(crate) record: Bytes,
}

/// Writes the record of these steps.
pub(crate) fn write(entries: &[StepEntry]) -> Bytes {
    let mut record = format!("{START}{}\n", entries.len()).into_bytes();
    for entry in entries {
        let StepEntry {
            position,
            name,
            place,
            record: bytes,
        } = entry;
        record.extend_from_slice(format!("{position} {name} {place} {}\n", bytes.len()).as_bytes());
        record.extend_from_slice(bytes);
        record.push(b'\n');
    }
    record.into()
}

/// Reads a record; `None` if another version or another program wrote it.
pub(crate) fn read(bytes: &Bytes) -> Option<Vec<StepEntry>> {
    let mut at = 0;
    let head = next_line(bytes, &mut at)?;
    let count = number(head.strip_prefix(START)?)?;
    let mut entries: Vec<StepEntry> = Vec::new();
    while at < bytes.len() {
        let entry = next_entry(bytes, &mut at)?;
        let is_new =
            |other: &StepEntry| other.position != entry.position && other.name != entry.name;
        if entries.len() == MOST || !entries.iter().all(is_new) {
            return None;
        }
        entries.push(entry);
    }
    (entries.len() == count && count > 0).then_some(entries)
}

/// Why `name` cannot name a step, as the predicate of a sentence about it.
pub(crate) fn why_no_name(name: &str) -> Option<&'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        return Some("is empty");
    }
    if name.len() > LONGEST_NAME {
        return Some("is longer than 64 bytes");
    }
    (!name.bytes().all(is_allowed)).then_some("has other characters than `A-Z a-z 0-9 . _ -`")
}

/// The place of a file and a line, in the form that the record has. A long path is cut at its beginning.
pub(crate) fn place(file: &str, line: u32) -> String {
    let char = |char: char| if char.is_ascii_graphic() { char } else { '_' };
    let file: String = file.chars().map(char).collect();
    let start = file.len().saturating_sub(LONGEST_FILE);
    format!("{}:{line}", &file[start..])
}

fn next_line<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a str> {
    let rest = &bytes[*at..];
    let rest = &rest[..rest.len().min(LONGEST_LINE)];
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    *at += length + 1;
    str::from_utf8(&rest[..length]).ok()
}

fn next_entry(bytes: &Bytes, at: &mut usize) -> Option<StepEntry> {
    let mut words = next_line(bytes, at)?.split(' ');
    let (position, name, place) = (number(words.next()?)?, words.next()?, words.next()?);
    let length = number(words.next()?)?;
    let (file, line) = place.rsplit_once(':')?;
    let is_place = !file.is_empty()
        && file.len() <= LONGEST_FILE
        && file.bytes().all(|byte| byte.is_ascii_graphic())
        && u32::try_from(number(line)?).is_ok();
    let end = at.checked_add(length)?;
    let is_valid = words.next().is_none() && is_place && why_no_name(name).is_none();
    if !is_valid || bytes.get(end) != Some(&b'\n') {
        return None;
    }
    let record = bytes.slice(*at..end);
    *at = end + 1;
    Some(StepEntry {
        position,
        name: name.to_owned(),
        place: place.to_owned(),
        record,
    })
}

/// Reads a number in the form that `write` writes: `parse` alone would also read `+3` and `03`.
fn number(digits: &str) -> Option<usize> {
    let number: usize = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

const START: &str = "idem1 S steps=";
/// The most steps of a call. With this the longest record fits the limit of the handle: their results together are no longer than
/// one result, and the rest of an entry has less than 640 bytes.
pub(crate) const MOST: usize = 100;
const LONGEST_NAME: usize = 64;
const LONGEST_FILE: usize = 100;
const LONGEST_LINE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::cases;

    fn entry(position: usize, name: &str, record: &'static [u8]) -> StepEntry {
        StepEntry {
            position,
            name: name.to_owned(),
            place: place("src/trip.rs", 14),
            record: Bytes::from_static(record),
        }
    }

    fn trip() -> [StepEntry; 2] {
        [entry(1, "hotel", b"\n\xff\n"), entry(0, "flight", b"")]
    }

    #[test]
    fn the_record_is_frozen() {
        let bytes = write(&trip());
        let frozen =
            b"idem1 S steps=2\n1 hotel src/trip.rs:14 3\n\n\xff\n\n0 flight src/trip.rs:14 0\n\n";
        assert_eq!(bytes, &frozen[..]);
        assert_eq!(read(&bytes).expect("a record"), trip());
    }

    #[test]
    fn bytes_in_another_form_are_no_record() {
        let good = "idem1 S steps=1\n0 a f:1 2\nxy\n";
        assert!(read(&Bytes::from_static(good.as_bytes())).is_some());
        for (part, other) in [
            ("idem1", "idem2"),
            ("S", "R"),
            ("=1", "=2"),
            ("=1", "=01"),
            ("0 a", "+0 a"),
            ("0 a", "0 ä"),
            ("0 a", "0  a"),
            ("f:1", "f"),
            ("f:1", ":1"),
            ("f:1", "f:1 x"),
            ("2\n", "3\n"),
            ("2\n", "1\n"),
            ("2\n", "99999999999999999999\n"),
            ("2\n", "18446744073709551615\n"),
            ("xy\n", "xy"),
            ("xy\n", "xy\n\n"),
        ] {
            let bytes = Bytes::from(good.replacen(part, other, 1));
            assert_eq!(read(&bytes), None, "{bytes:?}");
        }
        let twice = Bytes::from("idem1 S steps=2\n0 a f:1 0\n\n1 a f:1 0\n\n");
        assert_eq!(read(&twice), None);
        assert_eq!(read(&Bytes::from("idem1 S steps=0\n")), None);
    }

    #[test]
    fn random_changes_never_panic_and_read_only_what_is_written() {
        cases(128, |u| {
            let mut bytes = write(&trip()).to_vec();
            for _ in 0..u.int_in_range(1..=3)? {
                let at = u.choose_index(bytes.len())?;
                match u.int_in_range(0..=2)? {
                    0 => bytes[at] = u.arbitrary()?,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, u.arbitrary()?),
                }
            }
            let bytes = Bytes::from(bytes);
            if let Some(entries) = read(&bytes) {
                assert_eq!(write(&entries), bytes);
            }
            Ok(())
        });
    }

    #[test]
    fn a_long_path_is_cut_and_the_longest_entry_is_bounded() {
        let long = place(&"ä/".repeat(200), u32::MAX);
        let entry = StepEntry {
            position: MOST,
            name: "n".repeat(LONGEST_NAME),
            place: long,
            record: Bytes::new(),
        };
        let bytes = write(&[entry]);
        assert!(read(&bytes).is_some());
        // The record of a call has at most 320 bytes before its result, and a seal adds less than 100.
        assert!(bytes.len() + 420 < 640, "{}", bytes.len());
    }
}
