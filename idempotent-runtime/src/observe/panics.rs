//! Panics of observers and recorders. They change no call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs foreign code and logs its first panic. The panic must not change the outcome of the call. If the call is already
/// unwinding, a second panic that leaves this function would abort the process.
pub(super) fn catch_panics(who: &str, panicked: &AtomicBool, code: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(code));
    if outcome.is_err() && !panicked.swap(true, Ordering::Relaxed) {
        tracing::error!(
            target: "idempotence",
            "{who} panicked; it gets later events, and later panics are not logged"
        );
    }
}
