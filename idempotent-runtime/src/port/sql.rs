//! What the crate `idempotent-sql` uses: rows, transactions that run again, batches, and what its records share with the stores of this
//! crate.

use crate::record::fence::FenceLine;
use crate::store::Fence;

// The rows of a caller's transaction, and transactions that run again.
#[cfg(feature = "sql")]
pub use crate::sql::{
    retry::TransactionAttempts,
    rows::sqlite::CLAIM,
    time::{micros, sqlite_end, sqlite_now},
};

// The batches of a store, and the operations that are dropped or wait.
pub use super::redis::count_broken;
pub use crate::batch::{
    Answer, BatchTypes, Batches, Limits, Operation, QueueSender, Route, Transport,
};
pub use crate::store::last_poll::{is_last_poll, poll_last};
pub use crate::store::queue::Queues;
pub use crate::store::unsent::Unsent;
pub use crate::world::{jitter, random_bits};

// The records.
pub mod count {
    //! The record of a counter.

    pub use crate::record::count::{first, foreign, id, number};
}
pub use crate::record::fence::foreign as foreign_fence;
pub use crate::store::fencing::fence_ttl;
pub use crate::store::longest::Longest;

// The parameters of a URL.
pub use crate::error::closest::unknown_parameter;

/// The fence that the claim with the record `claim` has drawn. `None`: `record` has the number of another claim, or is no fence.
pub fn read_fence(record: &[u8], claim: &[u8]) -> Option<Fence> {
    let line = FenceLine::read(record).ok()?;
    (line.open_claim() == Some(claim)).then(|| line.into())
}
