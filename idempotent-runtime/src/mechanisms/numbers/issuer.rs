//! What all clones of one `OrderNumbers` share: the machine id, the secrets, and the set of redeemed numbers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::machine::Machine;
use crate::key::fingerprint::Keying;
use crate::mechanisms::seen::SeenSet;
use crate::protocol::tracker::TrackerToken;

/// What all clones of one [`OrderNumbers`](crate::OrderNumbers) share.
pub(super) struct Issuer {
    pub(super) machine: Arc<Machine>,
    /// The first secret issues numbers. There is at least one secret.
    pub(super) secrets: Vec<Keying>,
    pub(super) max_age: Duration,
    pub(super) seen: SeenSet,
    /// Stops the task that renews the lease, when the last clone is dropped.
    pub(super) on_drop: Option<oneshot::Sender<TrackerToken>>,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        if let Some(on_drop) = self.on_drop.take() {
            // A shutdown waits until the machine id is given back. If the task has ended, the send fails, which is fine.
            let _ = on_drop.send(self.machine.shared.tracker().track());
        }
    }
}
