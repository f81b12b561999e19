//! How a handle reads the records of calls, and puts results into them.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Site};
use crate::record::call::{Head, Record, RecordState};
use crate::record::kept::{Kept, Stored};
use crate::record::key_tag::KeyTag;
use crate::record::sealing::Sealing;
use crate::record::shape;
use crate::result::options::ResultOptions;
use crate::store::Key;

/// How a handle reads the records of calls, and puts results into them.
#[derive(Debug)]
pub(crate) struct RecordFormat {
    pub(crate) options: ResultOptions,
    pub(crate) sealing: Arc<dyn Sealing>,
    /// Records have digits of their key: their store is not in the memory of this process.
    pub(crate) name_keys: bool,
}

impl RecordFormat {
    /// Writes the record of a done call under `key`.
    pub(crate) fn done(&self, key: &str, head: &Head<'_>, kept: &Kept) -> Bytes {
        self.sealing.write(key, head, kept)
    }

    /// The digits of a key for its records.
    pub(crate) fn tag(&self, key: &Key) -> Option<KeyTag> {
        self.name_keys.then(|| key.tag())
    }

    /// Reads the bytes under `key`; `None` if they are longer than the handle allows, or no [`Record`] of this key.
    pub(crate) fn read<'a>(&self, key: &Key, bytes: &'a Bytes) -> Option<Record<'a>> {
        let record = self.options.read_record(bytes);
        record.filter(|record| record.may_be_of(|| key.tag()))
    }

    /// The error of bytes that [`read`](Self::read) does not read.
    pub(crate) fn foreign(&self, site: Site, bytes: &Bytes) -> Error {
        match self.options.read_record(bytes) {
            Some(_) => Error::of_another_key(site),
            None => Error::foreign(site, shape::describe(bytes)),
        }
    }

    /// The stored result, if this is the record of a call that has ended and has one.
    ///
    /// # Errors
    ///
    /// What is wrong with the result, if this program did not write it for this key.
    pub(crate) fn result(
        &self,
        key: &str,
        record: &Record<'_>,
    ) -> Result<Option<Stored>, &'static str> {
        if record.state != RecordState::Done {
            return Ok(None);
        }
        Ok(match self.sealing.read(key, record)? {
            Kept::Result(stored) => Some(stored),
            _ => None,
        })
    }
}
