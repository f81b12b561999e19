//! A record, as the calls of this process see it.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;

use crate::record::call::{Record, State};
use crate::record::kept::{Kept, Stored};
use crate::result::options::ResultOptions;

/// The bytes under a key, which duplicates of one call share.
#[derive(Debug)]
pub(crate) struct SeenRecord {
    bytes: Bytes,
    /// How long the record still lived when it was read, if it is a claim that is kept for the whole `ttl`: see
    /// [`kept_claim`](crate::protocol::kept_claim).
    kept_for: Option<Duration>,
    /// The stored result. It is read once, however many duplicates get it.
    result: OnceLock<Option<Stored>>,
}

impl SeenRecord {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self::with_time(bytes, None)
    }

    pub(crate) fn with_time(bytes: Bytes, kept_for: Option<Duration>) -> Self {
        Self {
            bytes,
            kept_for,
            result: OnceLock::new(),
        }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn kept_for(&self) -> Option<Duration> {
        self.kept_for
    }

    /// The stored result, if this is the record of a call that has ended and has one.
    pub(crate) fn result(&self, options: ResultOptions) -> Option<&Stored> {
        let read = || result_of(&options.read_record(&self.bytes)?);
        self.result.get_or_init(read).as_ref()
    }

    /// Does the same as [`result`](Self::result), for a caller that has `read` this record.
    pub(crate) fn result_in(&self, read: &Record<'_>) -> Option<&Stored> {
        self.result.get_or_init(|| result_of(read)).as_ref()
    }
}

fn result_of(record: &Record<'_>) -> Option<Stored> {
    match (record.state, record.kept()) {
        (State::Done, Kept::Result(stored)) => Some(stored),
        _ => None,
    }
}
