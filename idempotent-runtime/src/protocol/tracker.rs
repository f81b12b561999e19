//! Counts background work, so that a shutdown can wait for its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;

use crate::sync::AtomicUsize;

/// Counts the background work of one handle.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    count: AtomicUsize,
    idle: Notify,
}

/// One piece of background work, which counts until the token is dropped.
#[derive(Debug)]
pub(crate) struct TrackerToken(Arc<Tracker>);

impl Tracker {
    pub(crate) fn track(self: &Arc<Self>) -> TrackerToken {
        self.count.fetch_add(1, Ordering::Relaxed);
        TrackerToken(Arc::clone(self))
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until no background work is running.
    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // Registers before it reads the count, so that work that ends in between still notifies.
            idle.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            idle.await;
        }
    }
}

impl Drop for TrackerToken {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
