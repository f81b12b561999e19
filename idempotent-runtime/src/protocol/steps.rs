//! The steps of one call: which began, and which are in the store.
//!
//! One record has all steps of a key. It is written by compare-and-set on its last bytes, so of two calls that record a step, after a
//! pause longer than a lease, the first is accepted and the other learns that it has lost its lease. The record lives for `ttl` after
//! its last step, so it does not outlive the record of a later success. A run that has lost its lease may write after a success: it
//! looks at its key before and after, and takes its record back.

use std::sync::PoisonError;

use bytes::Bytes;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

use crate::mutation::mutation;
use crate::record::kept::Kept;
use crate::sync::Mutex;

/// The steps of one call.
#[derive(Default)]
pub(crate) struct Steps {
    begun: Mutex<Vec<BegunStep>>,
    /// Is locked while the store is asked, because each write needs the answer to the write before.
    stored: AsyncMutex<StoredSteps>,
}

/// A step that has begun.
struct BegunStep {
    step: Place,
    /// It has not run, because the store was not read.
    may_begin_again: bool,
}

/// A step, and the place in the code that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: String,
    /// As `src/trip.rs:14`.
    pub(crate) place: String,
}

/// A step that is done.
#[derive(Debug, Clone)]
pub(crate) struct DoneStep {
    pub(crate) position: usize,
    pub(crate) step: Place,
    pub(crate) kept: Kept,
}

/// What the store has of the steps of a key, as far as the call knows.
#[derive(Default)]
pub(crate) struct StoredSteps {
    pub(crate) is_read: bool,
    /// Nothing more is written: the record is removed, or left until it expires.
    pub(crate) is_closed: bool,
    /// The record; `None` if there is none.
    pub(crate) record: Option<Bytes>,
    pub(crate) done: Vec<DoneStep>,
    /// The first record was sent and not answered, so it may be stored later, also after a removal.
    pub(crate) may_come_late: bool,
    /// The records that were sent and not answered. Each may be stored in place of `record`.
    pub(crate) unanswered: Vec<(Bytes, Vec<DoneStep>)>,
}

impl Steps {
    /// Notes that a step begins, and returns its position in the call; the place of its first use if its name is used already.
    pub(crate) fn begin(&self, step: &Place) -> Result<usize, Place> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let mut used = begun.iter_mut().enumerate();
        let used = used.find(|(_, used)| used.step.name == step.name);
        if let Some((position, used)) = used.filter(|_| !mutation!(AllowsSameName)) {
            let begins_again = std::mem::take(&mut used.may_begin_again);
            return if begins_again {
                Ok(position)
            } else {
                Err(used.step.clone())
            };
        }
        begun.push(BegunStep {
            step: step.clone(),
            may_begin_again: false,
        });
        Ok(begun.len() - 1)
    }

    /// Notes that the step at this position did not run, so its name may be used again.
    pub(crate) fn did_not_begin(&self, position: usize) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun[position].may_begin_again = true;
    }

    pub(crate) async fn stored(&self) -> MutexGuard<'_, StoredSteps> {
        self.stored.lock().await
    }
}

impl StoredSteps {
    /// The record of the step at this position; the other step that was there if the order has changed.
    pub(crate) fn find(&self, position: usize, name: &str) -> Result<Option<&DoneStep>, &Place> {
        let keeps_order = !mutation!(IgnoresOrder);
        let mut done = self.done.iter();
        let found =
            done.find(|done| done.step.name == name || keeps_order && done.position == position);
        match found {
            Some(done) if done.step.name == name && (done.position == position || !keeps_order) => {
                Ok(Some(done))
            }
            Some(other) => Err(&other.step),
            None => Ok(None),
        }
    }

    /// Notes that `record` is stored, with these steps.
    pub(crate) fn note(&mut self, record: Bytes, done: Vec<DoneStep>) {
        self.record = Some(record);
        self.done = done;
        self.unanswered.clear();
    }

    /// Takes a record of the store for the current one, if this call has sent it.
    pub(crate) fn adopt(&mut self, found: &Bytes) -> bool {
        let own = self.unanswered.iter().position(|(sent, _)| sent == found);
        if let Some(own) = own.filter(|_| !mutation!(ForgetsUnanswered)) {
            let (record, done) = self.unanswered.swap_remove(own);
            self.note(record, done);
            return true;
        }
        false
    }
}
