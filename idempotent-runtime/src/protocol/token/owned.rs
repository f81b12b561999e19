//! What one redeemer does with one token.

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

/// A token and its redeemer: the records are those of an owner made for that.
pub(super) struct Owned {
    pub(super) shared: Arc<Shared>,
    pub(super) site: Site,
    pub(super) bound: Fingerprint,
    pub(super) key: String,
    pub(super) used: Bytes,
    pub(super) returned: Bytes,
    /// What a redemption may yet find in the place of the token, of a call that gives it back by itself.
    pub(super) doubt: Mutex<Option<Bytes>>,
}

impl Owned {
    pub(super) fn failure(&self, what: &'static str) -> Failure {
        Failure::new(self.site.clone(), what, None)
    }

    /// Tells that it is given back without a caller, of which the sending began then.
    pub(super) fn is_given_back(&self, began: Option<Instant>) {
        let event = Event::new(&self.site, EventKind::TokenGivenBack);
        self.shared.observers().emit_since(began, event);
    }

    /// Makes the token good again, whether the redemption was applied, will be, or never was.
    pub(super) async fn take_back(&self, expected: &Bytes) -> Result<Swap, StoreError> {
        loop {
            let swap = self.exchange(&self.used, &self.returned).await?;
            if !matches!(&swap, Swap::Other(standing) if standing == expected) {
                return Ok(swap);
            }
            // The redemption was not applied, and may be on its way: after this it finds something else than it expects.
            let swap = self.exchange(expected, &self.returned).await?;
            if !matches!(&swap, Swap::Other(standing) if *standing == self.used) {
                return Ok(swap);
            }
        }
    }

    pub(super) fn doubt(&self) -> MutexGuard<'_, Option<Bytes>> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn exchange<'a>(
        &'a self,
        expected: &'a Bytes,
        value: &'a Bytes,
    ) -> retry::StoreFuture<'a, Swap> {
        self.shared.store().exchange(&self.key, expected, value)
    }
}
