//! The contract between the protocol and the storage of records.
//!
//! A store has four operations. Each is atomic and on one key. There is no unconditional write and no read-then-write, so
//! callers cannot make a race. Values are opaque bytes. The store's own clock decides what has expired. A store may also notify
//! waiters of changes. This makes waiting quicker.

/// The macro that the trait uses, in the version of this crate.
pub use async_trait::async_trait;
/// The type of a record, in the version of this crate.
pub use bytes::Bytes;

mod answer;
#[cfg(feature = "testkit")]
pub(crate) mod batch_counts;
mod contract;
mod durability;
pub(crate) mod fencing;
pub(crate) mod filter;
mod finding;
pub(crate) mod key;
pub(crate) mod last_poll;
mod listing;
mod local;
pub(crate) mod longest;
pub mod memory;
pub(crate) mod queue;
pub(crate) mod rows;
pub(crate) mod unsent;
mod url;
mod wrap;

pub use self::answer::{Claim, ClaimAll, ClaimAny, Count, Entry, Fence, FencedClaim, Hint, Swap};
pub use self::contract::{Store, claim_fenced_in_steps};
pub use self::durability::Durability;
pub use self::fencing::{DrawnFence, draw_fence};
pub use self::filter::{BloomFilter, BloomStats};
pub(crate) use self::filter::{ERROR_RATES, MOST_BITS, Shape};
pub use self::finding::{Finding, Level, Mechanism};
pub use self::key::Key;
pub use self::listing::{Cursor, LISTED_BYTES, Listed, Page};
pub use self::local::LocalStore;
pub(crate) use self::url::OF_REDIS;
pub use self::url::{Connecting, UrlScheme};
pub use self::wrap::Wrap;
pub use crate::error::store::{StoreError, StoreErrorKind};
pub use crate::register_url_scheme;
