//! How the result of a call is put into its record, and read from it: as it is, or sealed.

use std::fmt;

use bytes::Bytes;

use crate::record::call::{self, Head, Record};
use crate::record::kept::Kept;

/// Puts results into records, and reads them from records.
pub(crate) trait Sealing: fmt::Debug + Send + Sync {
    /// Writes the record of a done call under `key`.
    fn write(&self, key: &str, head: &Head<'_>, kept: &Kept) -> Bytes;

    /// What the record under `key` stores of the result.
    ///
    /// # Errors
    ///
    /// What is wrong with the result, if this program did not write it for this key.
    fn read(&self, key: &str, record: &Record<'_>) -> Result<Kept, &'static str>;
}

/// Without keys, results are stored as they are.
#[derive(Debug)]
pub(crate) struct Unsealed;

impl Sealing for Unsealed {
    fn write(&self, _: &str, head: &Head<'_>, kept: &Kept) -> Bytes {
        call::done(head, kept)
    }

    fn read(&self, _: &str, record: &Record<'_>) -> Result<Kept, &'static str> {
        Ok(record.kept())
    }
}
