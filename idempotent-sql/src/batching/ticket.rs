//! Whether a change of a batch has been sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use idempotent_runtime::port::sql::Unsent;

const WAITS: u8 = 0;
const SENT: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Shared by a change and its caller: either the change is sent, or its caller withdraws it before.
#[derive(Debug, Clone, Default)]
pub(super) struct Ticket(Arc<AtomicU8>);

impl Ticket {
    /// Notes that the change is sent now. Returns `false` if its caller has withdrawn it.
    pub(super) fn send(&self) -> bool {
        self.change(WAITS, SENT)
    }

    /// Notes that the change was not applied, and will be sent again.
    pub(super) fn wait_again(&self) {
        self.change(SENT, WAITS);
    }

    /// Withdraws the change. Returns `false` if it may have been sent.
    pub(super) fn withdraw(&self) -> bool {
        self.change(WAITS, WITHDRAWN)
    }

    fn change(&self, from: u8, to: u8) -> bool {
        let Self(state) = self;
        let changed = state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        changed.is_ok()
    }
}

/// Withdraws a change when it is dropped.
pub(super) struct WithdrawOnDrop<'a, 'v> {
    pub(super) ticket: Ticket,
    pub(super) unsent: &'a mut Unsent<'v>,
}

impl Drop for WithdrawOnDrop<'_, '_> {
    fn drop(&mut self) {
        if !self.ticket.withdraw() {
            self.unsent.end();
        }
    }
}
