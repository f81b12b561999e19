//! What the crate `idempotent-redis` uses: batches, the shape of a Bloom filter, and what its errors and records share with the stores
//! of this crate.

use std::error::Error;

use crate::store::{BloomFilter, BloomStats, StoreError, StoreErrorKind};

// The batches of a connection.
pub use crate::batch::{Answer, BatchTypes, Batches, Limits, Operation, Route, Transport};

// The records that the store's scripts read and write.
pub use crate::record::count::{first as first_count, foreign as foreign_count};
pub use crate::record::fence::foreign as foreign_fence;
pub use crate::store::fencing::fence_ttl;
pub use crate::store::key::member_key;
pub use crate::store::longest::Longest;

// A Bloom filter in time buckets.
pub use crate::store::filter::{Bucket, Shape};
pub use crate::world::time_of_day;

// The parameters of a URL.
pub use crate::error::closest::unknown_parameter;
pub use crate::policy::duration::read as read_duration;

// How long the store may take.
pub use crate::policy::deadline::{DEFAULT as DEFAULT_DEADLINE, first_try};

/// The statistics of a filter with these buckets.
pub fn bloom_stats(filter: &BloomFilter, buckets: impl IntoIterator<Item = Bucket>) -> BloomStats {
    BloomStats::new(filter, buckets)
}

/// Counts a batch whose request has failed, if a test kit counts batches.
pub fn count_broken(operations: usize) {
    #[cfg(feature = "testkit")]
    crate::store::batch_counts::BatchCounts::count_broken(operations);
    #[cfg(not(feature = "testkit"))]
    let _ = operations;
}

/// The error of `kind` whose text a server has chosen: a long text is cut, because it would fill logs and the memory of each caller.
pub fn server_error(
    kind: StoreErrorKind,
    source: impl Error + Send + Sync + 'static,
) -> StoreError {
    StoreError::of_server(kind, source)
}

/// The error of a key under which another program has stored something.
pub fn foreign_record(error: StoreError) -> StoreError {
    error.foreign_record()
}
