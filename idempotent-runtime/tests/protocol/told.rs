//! What the observer of a handle is told.

use std::sync::{Arc, Mutex};

use idempotent_runtime::{Event, EventKind, Idempotency};

use crate::guarded::Guarded;

#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<EventKind>>>);

impl Told {
    /// The same endpoint on another handle, which has an observer.
    pub(crate) fn on(&self, guarded: &Guarded) -> Guarded {
        let (ear, endpoint) = (self.clone(), guarded.endpoint);
        let idempotency = Idempotency::builder(Arc::clone(&guarded.store))
            .observer(move |event: &Event<'_>| {
                assert_eq!(event.endpoint(), endpoint);
                ear.0.lock().unwrap().push(event.kind());
            })
            .build()
            .unwrap();
        Guarded {
            idempotency,
            ..guarded.clone()
        }
    }

    /// The names of all since the last time, but that a claim which was withdrawn had never been put.
    pub(crate) fn take(&self) -> Vec<String> {
        let told = std::mem::take(&mut *self.0.lock().unwrap());
        let put = told.iter().filter(|kind| **kind != EventKind::AlreadyGone);
        put.map(EventKind::to_string).collect()
    }

    /// Those since the last time that end a call, which stay to be taken.
    pub(crate) fn ends(&self) -> Vec<EventKind> {
        let mut told = self.0.lock().unwrap().clone();
        told.retain(|kind| kind.is_end());
        told
    }
}
