//! A change in the queue, and its answer.

use idempotent_runtime::port::sql::Operation;

use super::ticket::Ticket;
use crate::database::batch::{Change, ChangeRequest, Found};

/// A change that waits to be sent with others.
pub(crate) struct Queued {
    pub(super) request: ChangeRequest,
    pub(super) ticket: Ticket,
    pub(super) digest: u64,
    /// How often the change was in a batch that was not applied.
    pub(super) sends: u32,
}

/// The answer to a change of a batch.
pub(crate) enum ChangeReply {
    Found(Found),
    /// The caller must send the change by itself.
    Alone {
        request: ChangeRequest,
        /// Whether the batch was committed is not known.
        may_be_applied: bool,
    },
}

impl Operation for Queued {
    fn size(&self) -> usize {
        let bytes = match &self.request.change {
            Change::Claim { value, .. } => value.len(),
            Change::Renew { expected, .. } | Change::Remove { expected } => expected.len(),
            Change::Replace {
                expected, value, ..
            }
            | Change::Exchange { expected, value } => expected.len() + value.len(),
            Change::Count { .. } => 0,
        };
        self.request.key.len() + bytes + OVERHEAD
    }

    fn digest(&self) -> Option<u64> {
        Some(self.digest)
    }
}

/// About how many bytes a change needs beside its key and its values.
const OVERHEAD: usize = 64;
