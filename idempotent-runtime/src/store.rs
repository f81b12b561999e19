//! The contract between the protocol and whatever keeps the records.
//!
//! A store offers four operations, each on one key, each atomic. There is no unconditional write and
//! no look-then-put, so a race cannot be written with it. Values are opaque bytes; the store's own
//! clock decides what has expired. It may give hints of changes besides, which make waiting quicker.
//!
//! # A store of your own
//!
//! The trait is written with [`async_trait`](macro@async_trait) and [`Bytes`]; [`idempotence::store`](crate::store) has
//! both, in the versions that fit. This is a whole store, on a map behind a mutex:
//!
//! ```
//! # use idempotent_runtime as idempotence;
//! use std::collections::HashMap;
//! use std::sync::{Mutex, MutexGuard, PoisonError};
//! use std::time::Duration;
//!
//! use idempotence::store::{Bytes, Claim, Entry, Store, StoreError, Swap, async_trait};
//! use tokio::time::Instant;
//!
//! #[derive(Debug, Default)]
//! struct MapStore(Mutex<HashMap<String, Record>>);
//!
//! #[derive(Debug)]
//! struct Record {
//!     value: Bytes,
//!     ends: Instant,
//! }
//!
//! impl Record {
//!     fn new(value: &Bytes, ttl: Duration) -> Self {
//!         Record { value: value.clone(), ends: Instant::now() + ttl }
//!     }
//! }
//!
//! impl MapStore {
//!     /// The records, without the one of `key` if that has expired.
//!     fn records(&self, key: &str) -> MutexGuard<'_, HashMap<String, Record>> {
//!         let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
//!         if records.get(key).is_some_and(|record| record.ends <= Instant::now()) {
//!             records.remove(key);
//!         }
//!         records
//!     }
//! }
//!
//! #[async_trait]
//! impl Store for MapStore {
//!     async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
//!         let mut records = self.records(key);
//!         match records.get(key) {
//!             // Its own, from a try whose reply was lost: the time to live stays.
//!             Some(record) if record.value == value => Ok(Claim::Claimed),
//!             Some(record) => Ok(Claim::Taken(record.value.clone())),
//!             None => {
//!                 records.insert(key.to_owned(), Record::new(value, ttl));
//!                 Ok(Claim::Claimed)
//!             }
//!         }
//!     }
//!
//!     async fn replace(
//!         &self,
//!         key: &str,
//!         expected: &Bytes,
//!         value: &Bytes,
//!         ttl: Duration,
//!     ) -> Result<Swap, StoreError> {
//!         let mut records = self.records(key);
//!         match records.get_mut(key) {
//!             None => Ok(Swap::Absent),
//!             Some(record) if record.value == expected => {
//!                 *record = Record::new(value, ttl);
//!                 Ok(Swap::Done)
//!             }
//!             // Done already, by a try whose reply was lost.
//!             Some(record) if record.value == value => Ok(Swap::Done),
//!             Some(record) => Ok(Swap::Other(record.value.clone())),
//!         }
//!     }
//!
//!     async fn remove(&self, key: &str, expected: &Bytes) -> Result<Swap, StoreError> {
//!         let mut records = self.records(key);
//!         match records.get(key) {
//!             None => Ok(Swap::Absent),
//!             Some(record) if record.value == expected => {
//!                 records.remove(key);
//!                 Ok(Swap::Done)
//!             }
//!             Some(record) => Ok(Swap::Other(record.value.clone())),
//!         }
//!     }
//!
//!     async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
//!         Ok(self.records(key).get(key).map(|record| Entry {
//!             value: record.value.clone(),
//!             ttl: Some(record.ends - Instant::now()),
//!         }))
//!     }
//! }
//! # #[cfg(feature = "testkit")]
//! # tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap().block_on(async {
//! #     let failures = idempotence::testkit::conformance::failures(async || MapStore::default()).await;
//! #     assert!(failures.is_empty(), "{failures:?}");
//! # });
//! ```
//!
//! One macro call runs the conformance suite of the feature `testkit` against it:
//! `idempotence::testkit::conformance!(async { MapStore::default() });`

/// What the trait is written with: name it through here, and the versions agree.
pub use async_trait::async_trait;
/// What a record is: name it through here, and the versions agree.
pub use bytes::Bytes;

mod answer;
mod contract;
pub(crate) mod counting;
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
pub(crate) use self::filter::{ERROR_RATES, MOST_BITS, Shape};
pub use self::filter::{Fill, Filter};
pub use self::finding::{Finding, Level, Mechanism};
pub use self::wrap::Wrap;
pub use crate::error::store::{StoreError, StoreErrorKind};
