//! A call that may be a duplicate: how long it may wait, and how it is refused.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::error::Error;
use crate::observe::EventKind;
use crate::policy::OnStoreError;
use crate::protocol::held::Held;
use crate::protocol::lease::Lease;
use crate::protocol::poll_limiter::PollLimiter;
use crate::protocol::refusal::Refusal;
use crate::store::{StoreError, StoreErrorKind};

/// A call that may be a duplicate. It follows an equal call of this process, or contends for the key in the store.
pub(crate) struct Waiter {
    /// The claim that the call makes next, or has made.
    pub(crate) lease: Arc<Lease>,
    /// Until when the call may ask the store, if it does not wait.
    pub(crate) ask_until: Instant,
    /// Until when the call waits for the end of another call, if it has the option `wait`.
    pub(crate) wait_until: Option<Instant>,
    pub(crate) poll_limiter: PollLimiter,
    /// When the call began to wait.
    pub(crate) waiting_since: Option<Instant>,
    has_ended: bool,
}

impl Waiter {
    pub(crate) fn new(lease: Arc<Lease>, began: Instant) -> Self {
        let call = &lease.call;
        Self {
            ask_until: began + call.shared.deadline(),
            wait_until: call.policy.longest_wait().map(|wait| began + wait),
            poll_limiter: PollLimiter::new(),
            waiting_since: None,
            has_ended: false,
            lease,
        }
    }

    /// Emits the events of the end.
    pub(crate) fn finish(&mut self, end: Result<Held, Refusal>) -> Result<Held, Refusal> {
        self.has_ended = true;
        let call = &self.lease.call;
        if let Some(since) = self.waiting_since {
            let waited = Some(since.elapsed());
            call.emit(EventKind::Waited, |event| event.lasted(waited));
        }
        end.inspect_err(|refusal| refusal.emit(call))
    }

    pub(crate) fn refusal(&self, record: &Bytes, is_running: bool) -> Refusal {
        Refusal::from_record(&self.lease.call, record, is_running)
    }

    /// The refusal if the store has not answered an equal call of this process.
    pub(crate) fn unanswered(&self) -> Refusal {
        let error = StoreError::new(StoreErrorKind::Unknown, "no answer to the equal call");
        let error =
            error.reason("did not answer an equal call of this process and was not asked again");
        Error::store(self.lease.call.site.clone(), error).into()
    }

    pub(crate) fn refuses_without_store(&self) -> bool {
        self.lease.call.policy.on_store_error.unwrap_or_default() == OnStoreError::Refuse
    }

    /// Until when the call waits instead of returning this error; `None` if it returns the error.
    pub(crate) fn wait_limit(&self, error: &Error) -> Option<Instant> {
        let may_end = match error {
            Error::InProgress(_) => true,
            // The end of the other call is visible only if it changes the record.
            Error::Taken(_) => self.lease.call.policy.marks_the_end(),
            _ => false,
        };
        self.wait_until
            .filter(|until| may_end && *until > Instant::now() && Handle::try_current().is_ok())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.has_ended {
            self.lease.call.emit_end(EventKind::of_a_dropped_call());
        }
    }
}
