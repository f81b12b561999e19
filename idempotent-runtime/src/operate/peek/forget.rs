//! Removing the record of a key and its steps.

use bytes::Bytes;

use super::{Peek, endpoint_of};
use crate::error::{Error, Site, Subject};
use crate::handle::Idempotency;
use crate::key::fingerprint::Parts;
use crate::protocol::retry::StoreAttempt;
use crate::store::{Key, StoreError, StoreErrorKind, Swap};

impl Idempotency {
    /// Frees the key if it still has the record that was read, and removes its [steps](crate::IdempotencyContext::step). Returns whether it
    /// had this record.
    ///
    /// A body that still runs loses its lease at its next renewal. Until then an equal call may run at the same time. A call with the
    /// option `also` has a record for each key: an equal call runs when all are free.
    ///
    /// If this handle knows an outcome of the key that the store has not taken (event `unconfirmed`), it forgets the outcome and does not
    /// send it again, also if the request fails. Another handle that knows the outcome stores it again.
    ///
    /// Round trips: two; three if steps were recorded since the record was read.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] or [`Error::Misconfigured`] if the store cannot serve the request.
    pub async fn forget(&self, peek: &Peek) -> Result<bool, Error> {
        let removal = self.shared().store().remove(&peek.key, &peek.record);
        let removal = StoreAttempt::new(removal, self.shared().deadline()).await;
        if !matches!(removal, Ok(Swap::Other(_))) {
            // The record is removed, or may be removed. So duplicates in this process must ask the store again.
            self.shared().in_flight_table().evict(&peek.site, &peek.key);
        }
        let removed = match removal {
            Ok(Swap::Other(_)) => Ok(false),
            Ok(swap) => {
                let steps = self.remove_steps(&peek.key, peek.steps.as_ref()).await;
                steps.map(|_| swap == Swap::Done)
            }
            Err(error) => Err(error),
        };
        removed.map_err(|error| {
            let site = Site {
                subject: Subject::Forget,
                ..peek.site.clone()
            };
            Error::store_operation(site, error)
        })
    }

    /// Removes the [steps](crate::IdempotencyContext::step) that a call of `endpoint` with these key parts has recorded, so that the next
    /// run runs all of them. Returns whether there were any.
    ///
    /// For a key that is free: [`forget`](Self::forget) frees a key that is taken, and removes its steps. A call that runs meanwhile keeps
    /// its steps. Give the parts as for [`peek`](Self::peek).
    ///
    /// Round trips: one, and one more if there are steps.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), idempotence::Error> {
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let had_steps = idempotency.forget_steps("trips.book", &(7, "2026-11-21/42")).await?;
    /// # assert!(!had_steps);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidKey`] as [`peek`](Self::peek); [`Error::Unavailable`] or [`Error::Misconfigured`] if the store cannot serve the
    /// request, or does not return the whole record of the steps, because it is larger than this handle's
    /// [`largest_result`](crate::Builder::largest_result) allows.
    pub async fn forget_steps(&self, endpoint: &str, parts: &impl Parts) -> Result<bool, Error> {
        let endpoint = endpoint_of(endpoint)?;
        let fingerprint = self.parts(&endpoint, parts)?.finish();
        let key = self.shared().key(&endpoint, &fingerprint);
        let removed = self.remove_steps(&key, None).await;
        removed.map_err(|error| {
            let site = Site::of(Subject::Forget, endpoint).with_key(fingerprint);
            Error::store_operation(site, error)
        })
    }

    /// Removes the steps of the call with this key. Returns whether there were any. `last` is their record, if it is known.
    async fn remove_steps(&self, key: &Key, last: Option<&Bytes>) -> Result<bool, StoreError> {
        let key = self.shared().steps_key(key);
        let longest = self.shared().records().options.longest_record();
        let mut expected = last.cloned().unwrap_or_default();
        loop {
            let removal = self.shared().store().remove(&key, &expected);
            match StoreAttempt::new(removal, self.shared().deadline()).await? {
                Swap::Done => return Ok(true),
                // A store may cut a record that is too long for the handle. The rest of it is not compared with the whole record.
                Swap::Absent if expected.len() > longest => return Err(too_long()),
                Swap::Absent => return Ok(false),
                Swap::Other(found) => expected = found,
            }
        }
    }
}

fn too_long() -> StoreError {
    let error = StoreError::new(StoreErrorKind::Misconfigured, "a long record of steps");
    error.reason("has more steps than `largest_result` of this handle allows, so they are not removed: use the `largest_result` of the handle that wrote them")
}
