//! What few calls have: further keys, steps, or a permit.

use std::borrow::Cow;
use std::iter;
use std::sync::{Arc, OnceLock};

use super::{CallRef, FurtherOrSteps, Lease};
use crate::error::Site;
use crate::protocol::steps::Steps;

impl Lease {
    /// This claim, which has the key of the call, and the claims of its further keys.
    pub(crate) fn all(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        let further = match self.first().more.get() {
            Some(FurtherOrSteps::Further(further)) => &**further,
            _ => &[],
        };
        iter::once(self).chain(further)
    }

    /// Notes the claims of the further keys of the call. Later notes are ignored.
    pub(crate) fn set_further(&self, further: Vec<Arc<Self>>) {
        let further = || FurtherOrSteps::Further(further.into());
        self.first().more.get_or_init(further);
    }

    /// The next claim of the same call, with a new owner, of this slot of the key: see [`permit`](crate::protocol::permit).
    pub(crate) fn with_slot(self: Arc<Self>, slot: u8) -> Arc<Self> {
        let first = match &self.of {
            CallRef::First(_) => self,
            CallRef::Later(first, _) => Arc::clone(first),
        };
        Arc::new(Self {
            of: CallRef::Later(first, slot),
            claim: OnceLock::new(),
        })
    }

    /// The slot of the key that this claims; 0 without permits.
    pub(crate) fn slot(&self) -> u8 {
        match self.of {
            CallRef::First(_) => 0,
            CallRef::Later(_, slot) => slot,
        }
    }

    /// The endpoint, and the fingerprint of the slot that this claims.
    pub(crate) fn site_of_slot(&self) -> Cow<'_, Site> {
        match self.slot() {
            0 => Cow::Borrowed(&self.call().site),
            slot => Cow::Owned(self.call().site_of_slot(slot)),
        }
    }

    /// The steps of the body; `None` if the call has further keys.
    pub(crate) fn steps(&self) -> Option<&Arc<Steps>> {
        let steps = || FurtherOrSteps::Steps(Arc::default());
        match self.first().more.get_or_init(steps) {
            FurtherOrSteps::Steps(steps) => Some(steps),
            FurtherOrSteps::Further(_) => None,
        }
    }

    /// The steps of the body, if it has begun one.
    pub(crate) fn steps_if_used(&self) -> Option<&Arc<Steps>> {
        match self.first().more.get() {
            Some(FurtherOrSteps::Steps(steps)) => Some(steps),
            _ => None,
        }
    }
}
