//! One token and the records of one redeemer.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;

use crate::error::{Failure, Site};
use crate::key::fingerprint::Fingerprint;
use crate::observe::{Event, EventKind};
use crate::protocol::retry;
use crate::protocol::shared::Shared;
use crate::store::{StoreError, Swap};
use crate::sync::{Mutex, MutexGuard};

/// One token with the records of one redeemer, which has a random owner.
pub(super) struct Owned {
    pub(super) shared: Arc<Shared>,
    pub(super) site: Site,
    pub(super) bound: Fingerprint,
    pub(super) key: String,
    pub(super) used: Bytes,
    pub(super) returned: Bytes,
    /// The record that a redemption without an answer expects. Set for calls, because they give their tokens back themselves.
    pub(super) unconfirmed: Mutex<Option<Bytes>>,
}

impl Owned {
    pub(super) fn failure(&self, what: &'static str) -> Failure {
        Failure::new(self.site.clone(), what, None)
    }

    /// Emits that the token was given back in the background. The background job began at `began`.
    pub(super) fn emit_given_back(&self, began: Option<Instant>) {
        let event = Event::new(&self.site, EventKind::TokenGivenBack);
        self.shared.observers().emit_since(began, event);
    }

    /// Makes the token redeemable again, whether its redemption was applied, is in flight, or never arrives.
    pub(super) async fn take_back(&self, expected: &Bytes) -> Result<Swap, StoreError> {
        loop {
            let swap = self.exchange(&self.used, &self.returned).await?;
            if !matches!(&swap, Swap::Other(current) if current == expected) {
                return Ok(swap);
            }
            // The redemption was not applied. If it is still in flight, it will fail, because it expects another record.
            let swap = self.exchange(expected, &self.returned).await?;
            if !matches!(&swap, Swap::Other(current) if *current == self.used) {
                return Ok(swap);
            }
        }
    }

    pub(super) fn unconfirmed(&self) -> MutexGuard<'_, Option<Bytes>> {
        self.unconfirmed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn exchange<'a>(
        &'a self,
        expected: &'a Bytes,
        value: &'a Bytes,
    ) -> retry::StoreFuture<'a, Swap> {
        self.shared.store().exchange(&self.key, expected, value)
    }
}
