//! Panics of observers and recorders, which change no call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs somebody else's code, which may not change what becomes of a call. The call may be
/// unwinding already, and a panic that leaves `tell` would abort the process then.
pub(super) fn guarded(who: &str, panicked: &AtomicBool, tell: impl FnOnce()) {
    let told = catch_unwind(AssertUnwindSafe(tell));
    if told.is_err() && !panicked.swap(true, Ordering::Relaxed) {
        tracing::error!(
            target: "idempotence",
            "{who} panicked; it goes on being told, and this is not said again"
        );
    }
}
