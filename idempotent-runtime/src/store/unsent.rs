//! Whether a claim that was dropped was sent.
//!
//! A dropped claim may be stored, so its call withdraws it. If many callers drop their calls, these withdrawals are most of the
//! work of a slow store. So a store notes a claim that it has not sent, and the call withdraws nothing.

use std::cell::RefCell;

use bytes::Bytes;

/// A claim that its store has not sent yet. If this is dropped with the future of the claim, the claim is noted as unsent.
#[derive(Debug)]
pub struct Unsent<'a>(Option<&'a Bytes>);

impl<'a> Unsent<'a> {
    /// The claim that stores `value`, which no other claim stores.
    pub fn claim(value: &'a Bytes) -> Self {
        Self(Some(value))
    }

    /// Another operation, which is never noted.
    pub fn other() -> Self {
        Self(None)
    }

    /// The claim is sent now, or is answered.
    pub fn end(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(value) = self.0 {
            // A thread that ends has no notes any more. Then the claim is withdrawn.
            let _ = NOTED.try_with(|noted| noted.replace(Some(value.clone())));
        }
    }
}

/// Whether the claim of `value`, whose future this thread has just dropped, was noted as unsent.
pub(crate) fn was_unsent(value: &Bytes) -> bool {
    let noted = NOTED.try_with(RefCell::take);
    noted.is_ok_and(|noted| noted.as_ref() == Some(value))
}

thread_local! {
    /// The claim that was noted last on this thread.
    static NOTED: RefCell<Option<Bytes>> = const { RefCell::new(None) };
}
