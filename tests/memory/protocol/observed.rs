//! An observer that collects the events of a handle.

use std::sync::{Arc, Mutex};

use idempotent_runtime::{Event, EventKind, Idempotency};

use crate::protocol::guarded::Guarded;

#[derive(Clone, Default)]
pub(crate) struct Observed(Arc<Mutex<Vec<EventKind>>>);

impl Observed {
    /// Returns the same endpoint on another handle with this observer.
    pub(crate) fn on(&self, guarded: &Guarded) -> Guarded {
        let (sink, endpoint) = (self.clone(), guarded.endpoint);
        let idempotency = Idempotency::builder(Arc::clone(&guarded.store))
            .observer(move |event: &Event<'_>| {
                assert_eq!(event.endpoint(), endpoint);
                sink.0.lock().unwrap().push(event.kind());
            })
            .build()
            .unwrap();
        Guarded {
            idempotency,
            ..guarded.clone()
        }
    }

    /// Removes and returns the names of the events. Omits `already_gone` for withdrawn claims that were never stored.
    pub(crate) fn take(&self) -> Vec<String> {
        let observed = std::mem::take(&mut *self.0.lock().unwrap());
        let put = observed
            .iter()
            .filter(|kind| **kind != EventKind::AlreadyGone);
        put.map(EventKind::to_string).collect()
    }

    /// Returns the events that end a call, without removing them.
    pub(crate) fn ends(&self) -> Vec<EventKind> {
        let mut observed = self.0.lock().unwrap().clone();
        observed.retain(|kind| kind.is_end());
        observed
    }
}
