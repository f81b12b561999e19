//! The last poll of an operation that has no answer in time.
//!
//! An operation that is dropped cannot say what it waited for. So it is polled once more before, and may then answer with an
//! error that names the cause.

use std::cell::Cell;

/// Polls an operation that has no answer in time: during `poll`, [`is_last_poll`] is true.
pub fn poll_last<T>(poll: impl FnOnce() -> T) -> T {
    let _reset = Reset(IS_LAST.replace(true));
    poll()
}

/// Whether the operation that is polled now will be dropped if it has no answer.
pub fn is_last_poll() -> bool {
    IS_LAST.get()
}

thread_local! {
    static IS_LAST: Cell<bool> = const { Cell::new(false) };
}

/// Restores the former value, also after a panic.
struct Reset(bool);

impl Drop for Reset {
    fn drop(&mut self) {
        IS_LAST.set(self.0);
    }
}
