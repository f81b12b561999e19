//! Work that outlives its caller, counted so that a shutdown can wait for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;

use crate::sync::AtomicUsize;

/// How much work is under way without a caller.
#[derive(Debug, Default)]
pub(crate) struct Unattended {
    count: AtomicUsize,
    none: Notify,
}

/// One piece of it, until dropped.
#[derive(Debug)]
pub(crate) struct Piece(Arc<Unattended>);

impl Unattended {
    pub(crate) fn begin(self: &Arc<Self>) -> Piece {
        self.count.fetch_add(1, Ordering::Relaxed);
        Piece(Arc::clone(self))
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until there is none.
    pub(crate) async fn ended(&self) {
        loop {
            let mut none = std::pin::pin!(self.none.notified());
            // Registered before the look, or the last piece could end in between unseen.
            none.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}
