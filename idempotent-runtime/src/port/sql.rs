//! What the crate `idempotent-sql` uses: sqlx as a driver, how a failure is read, batches, and what its records share with the stores
//! of this crate.

use crate::record::fence::FenceLine;
use crate::store::Fence;

// A database: its address, its statements, and the times that they bind.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use crate::sql::{
    block::retry::{TransactionAttempts, begin, is_rolled_back},
    database::run::{Run, bind},
    database::time::micros,
};
#[cfg(feature = "sqlite")]
pub use crate::sql::{
    database::time::{sqlite_end, sqlite_now},
    sqlite::{address::BEGIN_TO_WRITE, rows::CLAIM},
};

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub mod failure {
    //! What a failed operation means for the store.

    pub use crate::sql::failure::{
        acquire_failed, acquire_overdue, connect_failed, is_broken, is_missing_table, is_read_only,
        migration_failed, open_failed, place, statement_failed,
    };
}

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
