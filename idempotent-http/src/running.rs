//! Whether a guarded handler runs inside of a request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use idempotent_runtime::port::http::Shared;

/// The guarded handlers that run inside of one request, as its extension. [`ContinueLayer`](crate::ContinueLayer) adds it.
#[derive(Clone, Default)]
pub(super) struct Running(Arc<Inner>);

#[derive(Default)]
struct Inner {
    count: AtomicUsize,
    /// The handle of the first call.
    shared: OnceLock<Arc<Shared>>,
}

impl Running {
    /// A handler runs until the value is dropped.
    pub(super) fn begin(self, shared: &Arc<Shared>) -> RunningHandler {
        self.0.shared.get_or_init(|| Arc::clone(shared));
        self.0.count.fetch_add(1, Ordering::Relaxed);
        RunningHandler(self)
    }

    /// The handle of the first call, if a handler runs.
    pub(super) fn shared(&self) -> Option<&Arc<Shared>> {
        let runs = self.0.count.load(Ordering::Relaxed) > 0;
        self.0.shared.get().filter(|_| runs)
    }
}

/// A guarded handler that runs.
pub(super) struct RunningHandler(Running);

impl Drop for RunningHandler {
    fn drop(&mut self) {
        self.0.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}
