//! The token of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::redemption::Redemption;
use super::{binding, key_with};
use crate::error::Error;
use crate::key::endpoint::Endpoint;
use crate::key::fingerprint::{Fingerprint, Hasher, UnencodablePart};
use crate::protocol::shared::Shared;
use crate::store::{StoreError, StoreErrorKind};

/// The token of a call.
#[derive(Debug)]
pub(crate) struct CallToken {
    pub(crate) redemption: Redemption,
    /// The [`binding`] without the token.
    subject: Fingerprint,
    /// Whether the end of the call gives the token back.
    must_give_back: AtomicBool,
}

impl CallToken {
    /// See [`Redemption::build`].
    pub(crate) fn new(
        shared: &Arc<Shared>,
        operation: &Endpoint,
        token: &str,
        subject: impl Fn(&mut Hasher) -> Result<(), UnencodablePart>,
    ) -> Result<Self, Error> {
        let redemption = Redemption::build(shared, operation.clone(), token, &subject)?;
        Ok(Self {
            redemption,
            subject: binding(shared, operation, None, subject)?,
            must_give_back: AtomicBool::new(false),
        })
    }

    /// The same token for another call, which redeems it with its own owner.
    pub(crate) fn of_another_call(&self) -> Self {
        Self {
            redemption: self.redemption.by_another_owner(),
            subject: self.subject,
            must_give_back: AtomicBool::new(false),
        }
    }

    /// The key of the call. `parts` are the parts of the option `key`; they count if the option is set.
    pub(crate) fn key(&self, parts: &mut Hasher, named: bool) -> Fingerprint {
        let bound = if named {
            &self.subject
        } else {
            self.redemption.bound()
        };
        key_with(parts, bound)
    }

    /// Makes the end of the call give the token back first.
    pub(crate) fn return_on_settle(&self) {
        self.must_give_back.store(true, Ordering::Relaxed);
    }

    pub(crate) fn must_give_back(&self) -> bool {
        self.must_give_back.load(Ordering::Relaxed) || self.redemption.is_unconfirmed()
    }

    /// Gives the token back, in 1 round trip. May be called twice.
    pub(crate) async fn give_back(&self) -> Result<(), StoreError> {
        let sent = self.redemption.send_back().await;
        match &sent {
            // The next attempt would also fail, and the key must become free.
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::Full | StoreErrorKind::Misconfigured
                ) =>
            {
                self.redemption
                    .give_up("the store does not take the token back");
            }
            Err(_) => return sent,
            Ok(()) => {}
        }
        self.must_give_back.store(false, Ordering::Relaxed);
        Ok(())
    }
}
