//! How a handle reads the records of calls, and puts results into them.

use std::sync::Arc;

use bytes::Bytes;

use crate::record::call::{Head, Record, State};
use crate::record::kept::{Kept, Stored};
use crate::record::sealing::Sealing;
use crate::result::options::ResultOptions;

/// How a handle reads the records of calls, and puts results into them.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) options: ResultOptions,
    pub(crate) sealing: Arc<dyn Sealing>,
}

impl Records {
    /// Writes the record of a done call under `key`.
    pub(crate) fn done(&self, key: &str, head: &Head<'_>, kept: &Kept) -> Bytes {
        self.sealing.write(key, head, kept)
    }

    /// Reads the bytes under a key; `None` if they are longer than the handle allows, or no [`Record`].
    pub(crate) fn read<'a>(&self, bytes: &'a Bytes) -> Option<Record<'a>> {
        self.options.read_record(bytes)
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
        if record.state != State::Done {
            return Ok(None);
        }
        Ok(match self.sealing.read(key, record)? {
            Kept::Result(stored) => Some(stored),
            _ => None,
        })
    }
}
