//! What few calls have: further keys, or steps.

use std::iter;
use std::sync::Arc;

use super::{FurtherOrSteps, Lease};
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
