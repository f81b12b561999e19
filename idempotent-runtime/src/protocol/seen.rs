//! A record, as the calls of this process see it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::time::Instant;

use crate::record::call::{Record, RecordLine};
use crate::record::kept::Stored;
use crate::result::records::RecordFormat;
use crate::store::Key;

/// The bytes under a key, which duplicates of one call share.
#[derive(Debug)]
pub(crate) struct SeenRecord {
    key: Key,
    bytes: Bytes,
    /// How long it lives, if this is known.
    lives: Option<Lives>,
    /// The line of the record and its stored result, if there are any. Each is read once, however many duplicates see it.
    line: OnceLock<Option<RecordLine>>,
    result: OnceLock<Result<Option<Stored>, &'static str>>,
}

/// How long a record lives: the store has said it, or the record is not stored yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lives {
    pub(crate) until: Instant,
    /// Whether it is a claim that is kept for the whole `ttl`: see [`kept_claim`](crate::protocol::kept_claim).
    pub(crate) is_kept: bool,
}

/// The last record that was found, and the end of its lease if it is not renewed.
pub(crate) type LastHolder = Option<(Arc<SeenRecord>, Instant)>;

impl SeenRecord {
    pub(crate) fn new(key: &Key, bytes: Bytes) -> Self {
        Self::with_time(key, bytes, None)
    }

    pub(crate) fn with_time(key: &Key, bytes: Bytes, lives: Option<Lives>) -> Self {
        Self {
            key: key.clone(),
            bytes,
            lives,
            line: OnceLock::new(),
            result: OnceLock::new(),
        }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn lives(&self) -> Option<Lives> {
        self.lives
    }

    /// Whether the record lives, as far as its time is known.
    pub(crate) fn is_alive(&self, now: Instant) -> bool {
        self.lives.is_none_or(|lives| lives.until > now)
    }

    /// `until`, or the end of the record if it comes sooner.
    pub(crate) fn lives_until(&self, until: Instant) -> Instant {
        self.lives.map_or(until, |lives| lives.until.min(until))
    }

    /// The record; `None` if another version or another program wrote the bytes, or if they belong to another key.
    pub(crate) fn read(&self, records: &RecordFormat) -> Option<Record<'_>> {
        let read = || Some(records.read(&self.key, &self.bytes)?.line());
        let line = *self.line.get_or_init(read);
        Some(Record::with_line(line?, &self.bytes))
    }

    /// The stored result, if this is the record of a call that has ended and has one.
    ///
    /// # Errors
    ///
    /// What is wrong with the result, if this program did not write it for the key.
    pub(crate) fn result(&self, records: &RecordFormat) -> Result<Option<&Stored>, &'static str> {
        let read = || match self.read(records) {
            Some(record) => records.result(&self.key, &record),
            None => Ok(None),
        };
        let result = self.result.get_or_init(read);
        result.as_ref().map(Option::as_ref).map_err(|why| *why)
    }
}
