//! The ends of a handle's calls, recorded for a test.

use std::sync::{Arc, PoisonError, Weak};

use super::event::Event;
use super::kind::EventKind;
use crate::sync::{Mutex, RwLock};

/// The ends of the calls of one handle since the recording began, in the order in which the calls ended.
#[derive(Debug, Default)]
pub struct Recording(Mutex<Vec<Recorded>>);

/// One event of a call, without its key.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The name of the endpoint.
    pub endpoint: String,
    /// What happened.
    pub kind: EventKind,
    /// The first digits of the key, if the call has a key.
    pub key: Option<String>,
    /// The text of the error, if there is one.
    pub error: Option<String>,
}

impl Recording {
    /// The events since the recording began.
    pub fn events(&self) -> Vec<Recorded> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.clone()
    }

    fn note(&self, event: &Event<'_>) {
        let recorded = Recorded {
            endpoint: event.endpoint().to_owned(),
            kind: event.kind(),
            key: event.key().map(|key| key.to_string()),
            error: event.error().map(ToString::to_string),
        };
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(recorded);
    }
}

/// The recordings of one handle. A recording ends when it is dropped.
pub(super) struct Recordings(RwLock<Vec<Weak<Recording>>>);

impl Recordings {
    pub(super) const fn new() -> Self {
        Self(RwLock::new(Vec::new()))
    }

    pub(super) fn start(&self) -> Arc<Recording> {
        let recording = Arc::new(Recording::default());
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&recording));
        recording
    }

    /// Adds an event to each recording, unless the event is about an operation of a mechanism.
    pub(super) fn note(&self, event: &Event<'_>) {
        if event.kind().is_operation() {
            return;
        }
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        for recording in all.iter().filter_map(Weak::upgrade) {
            recording.note(event);
        }
    }
}
