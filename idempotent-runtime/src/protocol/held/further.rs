//! The further keys of a call that may run its body.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::join_all;

use super::{Guard, Held};
use crate::mutation::mutation;
use crate::protocol::ending::SettleOutcome;
use crate::protocol::lease::Lease;
use crate::protocol::settle;
use crate::result::body_outcome::BodyOutcome;

impl Held {
    /// A call that holds its key and `further` keys. The claims were answered some time ago.
    pub(crate) fn of_several(lease: Arc<Lease>, further: Vec<Arc<Lease>>) -> Self {
        lease.set_further(further);
        let mut held = Self::new(lease, Guard::Claim);
        held.is_fresh = false;
        held.has_further = !mutation!(OneLease);
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
        if self.has_further {
            return (self.lease.all()).find_map(|lease| Some((&**lease, lost(lease)?)));
        }
        Some((&self.lease, lost(&self.lease)?))
    }

    /// Ends a call with several keys: ends each of its claims, all at once. The outcome is that of its key.
    pub(super) fn settle_several(
        mut self,
        end: &BodyOutcome,
    ) -> impl Future<Output = SettleOutcome> + Send + use<> {
        let key = self.take_ending(end);
        let key = settle::settle(key.map(|ending| (Arc::clone(&self.lease), ending)));
        let further = self.lease.all().skip(1).map(|lease| {
            let ending = lease.begin_settling(end.success, &end.kept);
            if ending.is_none() {
                lease.finish_unsent();
            }
            settle::settle(ending.map(|ending| (Arc::clone(lease), ending)))
        });
        let further = join_all(further.collect::<Vec<_>>());
        async { futures_util::future::join(key, further).await.0 }
    }
}
