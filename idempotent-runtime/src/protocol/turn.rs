//! A call that is not known to be the first with its key: how long it may wait, and how it is refused.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::error::Error;
use crate::observe::EventKind;
use crate::policy::OnStoreError;
use crate::protocol::held::Held;
use crate::protocol::lease::Lease;
use crate::protocol::poll_limiter::Pauses;
use crate::protocol::refusal::Refusal;
use crate::store::{StoreError, StoreErrorKind};

/// A call that is not known to be the first with its key.
pub(crate) struct Turn {
    /// The claim that it makes, or is about to make.
    pub(crate) lease: Arc<Lease>,
    /// Until when the store may be asked for a call that does not wait.
    pub(crate) deadline: Instant,
    /// Until when it waits for the end of another call, if it does.
    pub(crate) patience: Option<Instant>,
    pub(crate) pauses: Pauses,
    /// When it began to wait.
    pub(crate) waits_since: Option<Instant>,
    over: bool,
}

impl Turn {
    pub(crate) fn new(lease: Arc<Lease>, began: Instant) -> Self {
        let call = &lease.call;
        Self {
            deadline: began + call.shared.deadline(),
            patience: call.policy.patience().map(|wait| began + wait),
            pauses: Pauses::new(),
            waits_since: None,
            over: false,
            lease,
        }
    }

    /// Tells how it went.
    pub(crate) fn over(&mut self, end: Result<Held, Refusal>) -> Result<Held, Refusal> {
        self.over = true;
        let call = &self.lease.call;
        if let Some(since) = self.waits_since {
            let waited = Some(since.elapsed());
            call.tell(EventKind::Waited, |event| event.lasted(waited));
        }
        end.inspect_err(|refusal| refusal.tell(call))
    }

    pub(crate) fn refusal(&self, record: &Bytes, running: bool) -> Refusal {
        Refusal::by(&self.lease.call, record, running)
    }

    /// The refusal of a call while another one of this process has not been answered.
    pub(crate) fn unanswered(&self) -> Refusal {
        let silence = "it has not answered an equal call of this process, either";
        let error = StoreError::new(StoreErrorKind::Unknown, silence);
        Error::store(self.lease.call.site.clone(), error).into()
    }

    pub(crate) fn refuses_without_the_store(&self) -> bool {
        self.lease.call.policy.on_store_error.unwrap_or_default() == OnStoreError::Refuse
    }

    /// Until when a call that would get this error waits instead, if it does.
    pub(crate) fn waits_for(&self, error: &Error) -> Option<Instant> {
        let may_end = match error {
            Error::InProgress(_) => true,
            // It will be seen to end only if its end is marked.
            Error::Taken(_) => self.lease.call.policy.marks_the_end(),
            _ => false,
        };
        self.patience
            .filter(|until| may_end && *until > Instant::now() && Handle::try_current().is_ok())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.over {
            self.lease.call.ended(EventKind::of_a_dropped_call());
        }
    }
}
