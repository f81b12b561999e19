//! The contract between the protocol and whatever keeps the records.
//!
//! A store offers four operations, each on one key, each atomic. There is no unconditional write and
//! no look-then-put, so a race cannot be written with it. Values are opaque bytes; the store's own
//! clock decides what has expired. It may give hints of changes besides, which make waiting quicker.

/// What the trait is written with: name it through here, and the versions agree.
pub use async_trait::async_trait;
/// What a record is: name it through here, and the versions agree.
pub use bytes::Bytes;

mod answer;
mod contract;
mod durability;
pub(crate) mod filter;
mod finding;
#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
pub(crate) mod longest;
pub mod memory;
pub(crate) mod queue;
pub(crate) mod rows;
mod wrap;

pub use self::answer::{Claim, Count, Entry, Hint, Swap};
pub use self::contract::Store;
pub use self::durability::Durability;
pub use self::filter::{BloomFilter, BloomStats};
pub(crate) use self::filter::{ERROR_RATES, MOST_BITS, Shape};
pub use self::finding::{Finding, Level, Mechanism};
pub use self::wrap::Wrap;
pub use crate::error::store::{StoreError, StoreErrorKind};
