//! The further keys of a call that may run its body.

use std::iter;
use std::sync::Arc;

use super::{Guard, Held};
use crate::protocol::lease::Lease;
use crate::protocol::settle;
use crate::result::body_outcome::BodyOutcome;

impl Held {
    /// A call that holds its key and `further` keys. The claims were answered some time ago.
    pub(crate) fn of_several(lease: Arc<Lease>, further: Vec<Arc<Lease>>) -> Self {
        lease.set_further(further);
        let mut held = Self::new(lease, Guard::Claim);
        held.is_fresh = false;
        held.has_further = true;
        held
    }

    /// The claim of one key of a call with several keys, which ends the claim together with the others.
    pub(crate) fn into_lease(mut self) -> Arc<Lease> {
        self.abandon();
        Arc::clone(&self.lease)
    }

    /// The first lost lease of the call, and why it is lost.
    pub(super) fn lose_if_expired(&self) -> Option<(&Lease, &'static str)> {
        let lost = |lease: &Arc<Lease>| lease.lose_if_expired();
        match lost(&self.lease) {
            Some(why) => Some((&self.lease, why)),
            None => (self.further().iter()).find_map(|lease| Some((&**lease, lost(lease)?))),
        }
    }

    /// The claims of the further keys.
    pub(super) fn further(&self) -> &[Arc<Lease>] {
        if self.has_further {
            self.lease.further()
        } else {
            &[]
        }
    }

    /// The claims of all keys.
    pub(super) fn leases(&self) -> impl Iterator<Item = &Arc<Lease>> {
        iter::once(&self.lease).chain(self.further())
    }

    /// Notes for the further keys that the body has returned. The end of the key also ends them. If it is not sent, because the lease
    /// of the key is lost, each is ended alone.
    pub(super) fn begin_settling_further(&self, end: &BodyOutcome, is_sent: bool) {
        for lease in self.further() {
            let ending = lease.begin_settling(end.success, &end.kept);
            if let Some(ending) = ending.filter(|_| !is_sent) {
                settle::settle_in_background(Arc::clone(lease), ending);
            }
        }
    }
}
