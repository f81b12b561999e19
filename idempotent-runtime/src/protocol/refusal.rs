//! Why the body of a call does not run: an error, or the stored result of an equal call.
//!
//! The error is plain data. This file decides whether the stored result can be given to the call, and emits the event of that end.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::error::{Duplicate, DuplicateState, Error, Known};
use crate::observe::EventKind;
use crate::policy::Release;
use crate::protocol::context::CallContext;
use crate::record::call::{Record, State};
use crate::record::kept::{Kept, Stored};
use crate::record::shape;
use crate::result::replay_mode::{NoReplay, ReplayMode};
use crate::world;

/// Why the body of a call does not run.
pub struct Refusal(Why);

enum Why {
    Error(Error),
    Replay(Box<Replay>),
}

/// The stored result of an equal call, which has not been read yet.
struct Replay {
    /// The call that asks for the result. Its end is emitted after the result is read.
    call: Arc<CallContext>,
    stored: Stored,
    /// The record of the equal call, and when it was found.
    record: Bytes,
    found: SystemTime,
    /// The error of a call that does not read the result. It is made from the record when it is needed, because most calls read
    /// the result.
    error: OnceLock<Error>,
}

impl Refusal {
    /// The refusal of a call whose key has this record. `is_running`: the holder of the key runs in this process.
    pub(crate) fn from_record(call: &Arc<CallContext>, bytes: &Bytes, is_running: bool) -> Self {
        let Some(record) = call.shared.result_options().read_record(bytes) else {
            return Error::foreign(call.site.clone(), shape::describe(bytes)).into();
        };
        let now = world::time_of_day();
        if record.state == State::Done
            && call.policy.replay
            && !record.differs_from(call.payload.as_ref())
            && let Kept::Result(stored) = record.kept()
        {
            return Self(Why::Replay(Box::new(Replay {
                call: Arc::clone(call),
                stored,
                record: bytes.clone(),
                found: now,
                error: OnceLock::new(),
            })));
        }
        Self::by_holder(call, &record, now, is_running)
    }

    /// The refusal of a call that gets no stored result.
    fn by_holder(
        call: &CallContext,
        record: &Record<'_>,
        now: SystemTime,
        is_running: bool,
    ) -> Self {
        let state = match record.state {
            State::Done if record.is_failure() => DuplicateState::Failed,
            State::Done => DuplicateState::Done,
            State::Running if is_running || call.policy.release != Release::Never => {
                DuplicateState::Running
            }
            State::Running => DuplicateState::Unknown,
        };
        let duplicate = duplicate(call, record, state, now);
        if record.differs_from(call.payload.as_ref()) {
            return Error::PayloadMismatch(duplicate).into();
        }
        match state {
            DuplicateState::Running => Error::InProgress(duplicate).into(),
            DuplicateState::Unknown => Error::Taken(duplicate).into(),
            DuplicateState::Done | DuplicateState::Failed if call.policy.replay => {
                Self::without_stored(duplicate, &record.kept())
            }
            DuplicateState::Done => Error::AlreadyDone(duplicate).into(),
            DuplicateState::Failed => without_result(duplicate, NO_READER).into(),
        }
    }

    /// The refusal of a call with `replay` whose equal call has ended, and has no result that can be read.
    fn without_stored(duplicate: Duplicate, kept: &Kept) -> Self {
        let why = match kept {
            Kept::Nothing | Kept::Result(_) => return Error::AlreadyDone(duplicate).into(),
            Kept::TooLarge => "it was too large to be kept",
            Kept::Unencodable => "it could not be written",
            Kept::Unreadable => "it was stored by a later version",
        };
        without_result(duplicate, why).into()
    }

    /// The refusal of a call whose key has a row in another transaction. That transaction was still open after this call had `waited`,
    /// so its row cannot be read.
    pub(crate) fn still_open(call: &CallContext, waited: Duration) -> Self {
        Self::from(Error::InProgress(Duplicate::new(Known {
            site: call.site.clone(),
            state: DuplicateState::Running,
            holder: String::new(),
            age: waited,
            retry_after: call.shared.retry_hint(waited),
            free_in: None,
            unavailable: None,
        })))
    }

    /// The error of a call that does not read the stored result.
    pub fn error(&self) -> &Error {
        match &self.0 {
            Why::Error(error) => error,
            Why::Replay(replay) => replay.error.get_or_init(|| replay.to_error()),
        }
    }

    /// As [`error`](Self::error), and emits the end of the call.
    pub fn into_error(self) -> Error {
        match self.read::<Infallible, _>(NoReplay) {
            Ok(none) => match none {},
            Err(error) => error,
        }
    }

    /// Emits the end of `call`, unless its stored result must be read first.
    pub(crate) fn emit(&self, call: &CallContext) {
        if let Why::Error(error) = &self.0 {
            call.emit_refusal(error);
        }
    }

    /// Makes the outcome from the stored result, or returns the error if there is no result.
    pub(crate) fn read<R, K: ReplayMode<R>>(self, keep: K) -> Result<R, Error> {
        let replay = match self.0 {
            Why::Error(error) => return Err(error),
            Why::Replay(replay) => replay,
        };
        let reading = Reading(Some(&replay.call));
        let read = keep.replay(&replay.stored);
        reading.finish();
        let why = match read {
            Some(Ok(outcome)) => {
                replay.call.emit_end(EventKind::Replayed);
                return Ok(outcome);
            }
            Some(Err(why)) => Some(why),
            None => replay.stored.failure.then_some(NO_READER),
        };
        let error = match (replay.to_error(), why) {
            (Error::AlreadyDone(duplicate), Some(why)) => without_result(duplicate, why),
            (error, _) => error,
        };
        replay.call.emit_refusal(&error);
        Err(error)
    }
}

impl Replay {
    fn to_error(&self) -> Error {
        let Some(record) = Record::read(&self.record) else {
            // Cannot happen: the record was read before.
            return Error::foreign(self.call.site.clone(), shape::describe(&self.record));
        };
        let state = if self.stored.failure {
            DuplicateState::Failed
        } else {
            DuplicateState::Done
        };
        Error::AlreadyDone(duplicate(&self.call, &record, state, self.found))
    }
}

/// What a call learns of the holder of its key.
fn duplicate(
    call: &CallContext,
    record: &Record<'_>,
    state: DuplicateState,
    now: SystemTime,
) -> Duplicate {
    let age = record.age(now);
    let remaining = record.remaining_at(age);
    Duplicate::new(Known {
        site: call.site.clone(),
        state,
        holder: record.holder().to_owned(),
        age,
        retry_after: match state {
            DuplicateState::Running => call.shared.retry_hint(age).min(remaining),
            _ => remaining,
        },
        free_in: Some(remaining),
        unavailable: None,
    })
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(Why::Error(error))
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refusal").field(self.error()).finish()
    }
}

/// Reads a result with code of the caller's crate. If it is dropped before [`finish`](Self::finish), that code panicked.
struct Reading<'a>(Option<&'a CallContext>);

impl Reading<'_> {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.0 {
            call.emit_end(EventKind::Panicked);
        }
    }
}

fn without_result(duplicate: Duplicate, why: &'static str) -> Error {
    Error::ResultUnavailable(duplicate.without_result(why))
}

/// Why a function without `replay_err` does not get a stored error.
const NO_READER: &str =
    "it ended with an error, which only a function with the option `replay_err` reads";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::call::Call;
    use crate::handle::Idempotency;
    use crate::key::endpoint::Endpoint;
    use crate::result::replay_mode::ReplayOk;
    use crate::{MemoryStore, Policy};

    type Outcome = Result<u32, Error>;

    async fn refused(idempotency: &Idempotency) -> Refusal {
        let policy = Policy::new(Duration::from_mins(1)).replay();
        let call = || Call::new(Endpoint::named("orders.pay"), policy, Some(idempotency)).part(&1);
        let values = ReplayOk::<Outcome>::new();
        let held = call().claim().await.expect("the first call gets the key");
        held.settle_with(values, &Ok(42), true).await;
        call()
            .claim()
            .await
            .expect_err("the second call is a duplicate")
    }

    #[tokio::test]
    async fn a_call_with_replay_reads_the_stored_result() {
        let refusal = refused(&Idempotency::new(MemoryStore::new())).await;
        assert_eq!(refusal.error().code(), "already_done");
        let outcome = refusal.read(ReplayOk::<Outcome>::new());
        assert_eq!(outcome.expect("the result is read").expect("a success"), 42);
    }

    #[tokio::test]
    async fn an_error_does_not_keep_the_store_alive() {
        let store = Arc::new(MemoryStore::new());
        let error = refused(&Idempotency::new(Arc::clone(&store)))
            .await
            .into_error();
        assert_eq!(Arc::strong_count(&store), 1);
        assert_eq!(error.clone().to_string(), error.to_string());
    }
}
