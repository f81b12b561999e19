//! The changes of a batch as documents of JSON.

use bytes::Bytes;
use idempotent_runtime::port::sql::count;

use super::statements::{LARGEST_READ, MOST, MOST_COUNTS};
use crate::database::batch::{Change, ChangeRequest};

/// The changes that one statement makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Claim,
    Count,
    Renew,
    Swap,
    Remove,
}

impl ChangeKind {
    pub(super) const ALL: [Self; 5] = [
        Self::Claim,
        Self::Count,
        Self::Renew,
        Self::Swap,
        Self::Remove,
    ];

    /// The kind with this number, which is its place in [`ALL`](Self::ALL).
    pub(super) fn numbered(number: i64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// The changes of a batch, by kind.
#[derive(Debug, Default)]
pub(super) struct Documents([Document; 5]);

/// The changes of one kind, in the order of their keys.
#[derive(Debug, Default)]
struct Document {
    /// An array, without its closing bracket.
    text: String,
    /// The places of the changes in the batch.
    places: Vec<usize>,
}

impl Documents {
    /// Leaves out large changes, and changes that the database would refuse.
    pub(super) fn from_requests(requests: &[&ChangeRequest]) -> Self {
        let mut documents = Self::default();
        for (place, request) in requests.iter().enumerate() {
            documents.add(place, request);
        }
        documents
    }

    fn add(&mut self, place: usize, request: &ChangeRequest) {
        let first;
        let (kind, expected, value, micros) = match &request.change {
            Change::Claim { value, micros } => {
                (ChangeKind::Claim, None, Some(value), Some(*micros))
            }
            Change::Count { attempt, micros } => {
                first = count::first(*attempt);
                (ChangeKind::Count, None, Some(&first), Some(*micros))
            }
            Change::Renew { expected, micros } => {
                (ChangeKind::Renew, Some(expected), None, Some(*micros))
            }
            Change::Replace {
                expected,
                value,
                micros,
            } => (ChangeKind::Swap, Some(expected), Some(value), Some(*micros)),
            Change::Exchange { expected, value } => {
                (ChangeKind::Swap, Some(expected), Some(value), None)
            }
            Change::Remove { expected } => (ChangeKind::Remove, Some(expected), None, None),
        };
        let document = &mut self.0[kind as usize];
        let bytes: usize = [expected, value]
            .into_iter()
            .flatten()
            .map(Bytes::len)
            .sum();
        let most = if kind == ChangeKind::Count {
            MOST_COUNTS
        } else {
            MOST
        };
        let largest = if kind == ChangeKind::Claim {
            LARGEST_READ
        } else {
            LARGEST
        };
        if bytes > largest || document.places.len() >= most || request.key.len() > LONGEST_KEY {
            return;
        }
        document.places.push(place);
        let text = &mut document.text;
        text.push_str(if text.is_empty() { "[[" } else { ",[" });
        push_hex(text, request.key.as_bytes());
        for bytes in [expected, value] {
            text.push(',');
            match bytes {
                Some(bytes) => push_hex(text, bytes),
                None => text.push_str("null"),
            }
        }
        text.push(',');
        match micros {
            Some(micros) => text.push_str(itoa::Buffer::new().format(micros)),
            None => text.push_str("null"),
        }
        text.push(']');
    }

    pub(super) fn is_empty(&self) -> bool {
        ChangeKind::ALL.into_iter().all(|kind| !self.has(kind))
    }

    pub(super) fn has(&self, kind: ChangeKind) -> bool {
        !self.places(kind).is_empty()
    }

    /// The places of the changes of a kind in the batch.
    pub(super) fn places(&self, kind: ChangeKind) -> &[usize] {
        &self.0[kind as usize].places
    }

    /// The documents by [kind](Kind::ALL), `None` for a kind without changes.
    pub(super) fn texts(&self) -> impl Iterator<Item = Option<String>> {
        let texts = self.0.iter().map(|document| &document.text);
        texts.map(|text| (!text.is_empty()).then(|| format!("{text}]")))
    }
}

/// The largest change of a batch, in bytes. A batch must be smaller than the smallest usual `max_allowed_packet`.
const LARGEST: usize = 64 * 1024;

/// The length of a key in the database, in bytes.
const LONGEST_KEY: usize = 512;

fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    text.reserve(2 * bytes.len() + 2);
    text.push('"');
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
    text.push('"');
}
