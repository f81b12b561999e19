//! How a handle stores results: with which codec, and up to which size.

use bytes::Bytes;
use serde::Serialize;

use crate::record::call as record;
use crate::record::call::Record;
use crate::record::kept::{Kept, Stored};
use crate::result::codec;
use crate::result::codec::{Codec, Encode, NotStored};

/// How a handle stores results.
#[derive(Debug, Clone, Copy)]
pub struct ResultOptions {
    pub(crate) codec: Codec,
    /// The largest result that is stored, in encoded bytes.
    pub max_bytes: usize,
}

impl Default for ResultOptions {
    fn default() -> Self {
        Self {
            codec: Codec::default(),
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }
}

/// The largest head of a stored response of HTTP, in bytes: its status, headers and trailers. `max_bytes` limits only its body.
pub const LONGEST_HEAD: usize = 64 * 1024;

/// The default of [`ResultOptions::max_bytes`].
const DEFAULT_MAX_BYTES: usize = 1024 * 1024;

impl ResultOptions {
    /// The longest record that this handle reads, in bytes.
    ///
    /// Never less than the longest record of a handle with the default limit, because such a handle may share the store during
    /// a deploy.
    pub(crate) fn longest_record(self) -> usize {
        self.max_bytes
            .max(DEFAULT_MAX_BYTES)
            .saturating_add(record::LONGEST_LINE)
            .saturating_add(LONGEST_HEAD)
    }

    /// Reads the bytes under a key; `None` if they are longer than this handle allows, or no [`Record`].
    pub(crate) fn read_record(self, bytes: &Bytes) -> Option<Record<'_>> {
        let longest = self.longest_record();
        let read = || Record::read(bytes);
        let record = (bytes.len() <= longest).then(read)??;
        // Only a response of HTTP has a head. A sealed result may be one.
        let fits = bytes.len() <= longest - LONGEST_HEAD || record.may_be_response();
        fits.then_some(record)
    }

    /// Writes `value`, which duplicates read as a `T`.
    pub(crate) fn store<T>(self, value: &impl Serialize, failure: bool) -> Kept {
        self.store_as(codec::schema::<T>(), value, failure)
    }

    fn store_as(self, schema: u32, value: &dyn Encode, failure: bool) -> Kept {
        match codec::encode(value, self.codec, self.max_bytes) {
            Ok(encoded) => Kept::Result(Stored {
                failure,
                schema,
                form: encoded.form,
                option_depth: encoded.option_depth,
                bytes: encoded.bytes.into(),
                tail: Bytes::new(),
            }),
            Err(NotStored::TooLarge) => Kept::TooLarge,
            Err(NotStored::Unencodable) => Kept::Unencodable,
        }
    }
}
