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
    /// The end of the call gives the token back.
    owed: AtomicBool,
}

impl CallToken {
    /// As [`Redemption::build`].
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
            owed: AtomicBool::new(false),
        })
    }

    /// The key of the call. `parts` are its own parts, which count if it is `named`.
    pub(crate) fn key(&self, parts: Hasher, named: bool) -> Fingerprint {
        let bound = if named {
            &self.subject
        } else {
            self.redemption.bound()
        };
        key_with(parts, bound)
    }

    /// Has the end of the call begin with giving the token back.
    pub(crate) fn owe(&self) {
        self.owed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn must_give_back(&self) -> bool {
        self.owed.load(Ordering::Relaxed) || self.redemption.is_in_doubt()
    }

    /// Gives the token back, in 1 round trip. May be called twice.
    pub(crate) async fn give_back(&self) -> Result<(), StoreError> {
        let sent = self.redemption.send_back().await;
        match &sent {
            // The next attempt would fail as well, and the key must become free.
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
        self.owed.store(false, Ordering::Relaxed);
        Ok(())
    }
}
