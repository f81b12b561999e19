//! How a handle keeps results: written by which codec, and how large.

use bytes::Bytes;
use serde::Serialize;

use crate::record::call as record;
use crate::record::call::Record;
use crate::record::kept::{Kept, Stored};
use crate::result::codec;
use crate::result::codec::{Codec, NotKept};

/// How the handle wants results to be kept.
#[derive(Debug, Clone, Copy)]
pub struct Keeping {
    pub(crate) codec: Codec,
    /// The largest result, in bytes as it is written.
    pub(crate) most: usize,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            codec: Codec::default(),
            most: LARGEST,
        }
    }
}

/// The largest result of a handle that does not say.
const LARGEST: usize = 1024 * 1024;

impl Keeping {
    /// The longest record that is read: one of the largest result that this handle keeps, or that a handle with the default
    /// does, which may share the store during a deploy.
    pub(crate) fn longest_record(self) -> usize {
        self.most.max(LARGEST).saturating_add(record::LONGEST_LINE)
    }

    /// Reads what stands under a key; `None` if it is longer than that, or not a [`Record`].
    pub(crate) fn record(self, bytes: &Bytes) -> Option<Record<'_>> {
        let read = || Record::read(bytes);
        (bytes.len() <= self.longest_record()).then(read)?
    }

    pub(super) fn keep<T: Serialize>(self, value: &T, failure: bool) -> Kept {
        match codec::encode(value, self.codec, self.most) {
            Ok(encoded) => Kept::Result(Stored {
                failure,
                schema: codec::schema::<T>(),
                form: encoded.form,
                somes: encoded.somes,
                bytes: encoded.bytes.into(),
            }),
            Err(NotKept::TooLarge) => Kept::TooLarge,
            Err(NotKept::Unencodable) => Kept::Unencodable,
        }
    }
}
