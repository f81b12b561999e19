//! The operations of a store that answers without waiting.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::answer::{Claim, Swap};
use super::key::Key;
use crate::error::store::StoreError;

/// A store in the memory of this process, which answers without waiting. [`Store::local`](super::Store::local) returns it.
///
/// A call uses these operations, which need no future, in place of the operations of [`Store`](super::Store) with the same names.
/// Both must do and answer the same, at the instant `now`, which the caller has just read from the clock. A store that
/// notifies waiters also notifies them of these changes.
pub trait LocalStore: Send + Sync {
    /// Does what [`Store::claim`](super::Store::claim) does.
    ///
    /// # Errors
    ///
    /// As [`Store::claim`](super::Store::claim).
    fn claim_now(
        &self,
        key: &Key,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Result<Claim, StoreError>;

    /// Does what [`Store::replace`](super::Store::replace) does.
    ///
    /// # Errors
    ///
    /// As [`Store::replace`](super::Store::replace).
    fn replace_now(
        &self,
        key: &Key,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
        now: Instant,
    ) -> Result<Swap, StoreError>;

    /// Does what [`Store::remove`](super::Store::remove) does.
    ///
    /// # Errors
    ///
    /// As [`Store::remove`](super::Store::remove).
    fn remove_now(&self, key: &Key, expected: &Bytes, now: Instant) -> Result<Swap, StoreError>;
}
