//! The pages of a listing.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// How many bytes of a record a listing has: more than the line of every record.
pub const LISTED_BYTES: usize = 512;

/// A page of [`Store::list`](super::Store::list).
///
/// The pages of a listing have every record that is stored from the first page to the last, and no record that has expired. A page may
/// have a few more records than were asked for, or fewer, or none although more pages follow. A record that is stored or removed
/// during the listing may be in it or not, and any record may be in it twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The records, in no particular order.
    pub records: Vec<Listed>,
    /// Where the next page begins. `None` if there is no next page.
    pub next: Option<Cursor>,
}

/// A record in a [`Page`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The key of the record.
    pub key: String,
    /// The first [`LISTED_BYTES`] bytes of the record, or all of its bytes if it is shorter.
    pub head: Bytes,
    /// The remaining time to live. `None` if the record never expires: another program wrote it.
    pub ttl: Option<Duration>,
}

/// Where a [`Page`] begins. Its text is of the store that made it, and outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(String);

impl Cursor {
    /// Makes a cursor from the text of a cursor of the same store.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the cursor.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
