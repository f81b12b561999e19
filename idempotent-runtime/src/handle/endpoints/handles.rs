//! The handles of the process: each runs endpoints by its own settings.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::KnownEndpoints;

static HANDLES: Mutex<Vec<Weak<KnownEndpoints>>> = Mutex::new(Vec::new());

/// Has the endpoints of a handle be listed for as long as it lives.
pub(super) fn add(known: &Arc<KnownEndpoints>) {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    if handles.len() == handles.capacity() {
        // Those that are gone make room. With each growth there are twice as many pushes until the next look at all.
        handles.retain(|handle| handle.strong_count() > 0);
        let count = handles.len();
        handles.reserve(count + 1);
    }
    handles.push(Arc::downgrade(known));
}

/// Those that live.
pub(super) fn all() -> Vec<Arc<KnownEndpoints>> {
    let handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    handles.iter().filter_map(Weak::upgrade).collect()
}
