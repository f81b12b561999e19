//! A leased machine id, and what its numbers are proved and looked up by.

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
    /// The first one issues; there is always one.
    pub(super) secrets: Vec<Keying>,
    pub(super) max_age: Duration,
    pub(super) seen: SeenSet,
    /// Tells the machine's task when the last clone is gone.
    pub(super) on_drop: Option<oneshot::Sender<TrackerToken>>,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        if let Some(on_drop) = self.on_drop.take() {
            // A shutdown waits for the machine id to be given back. A task that is gone does not mind.
            let _ = on_drop.send(self.machine.shared.tracker().track());
        }
    }
}
