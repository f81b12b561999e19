//! Why the body of a call does not run: an error, or the stored result of an equal call.
//!
//! The error is plain data. This file decides whether the stored result can be given to the call, and emits the event of that end.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Duplicate, DuplicateFacts, DuplicateState, Error};
use crate::mutation::mutation;
use crate::observe::EventKind;
use crate::policy::Release;
use crate::protocol::context::{CallContext, OfCall};
use crate::protocol::seen::{Lives, SeenRecord};
use crate::record::call::{Record, RecordState};
use crate::record::kept::{Kept, Stored};
use crate::result::replay_mode::{NoReplay, ReplayMode};
use crate::world;

/// Why the body of a call does not run.
pub struct Refusal(Why);

enum Why {
    Error(Error),
    Replay(UnreadReplay),
}

/// The stored result of an equal call, which has not been read yet.
struct UnreadReplay {
    /// The call that asks for the result. Its end is emitted after the result was read.
    of: Arc<dyn OfCall>,
    record: Arc<SeenRecord>,
    /// The error of a call that does not read the result. Few calls need it.
    error: OnceLock<Error>,
}

impl Refusal {
    /// The refusal of a call whose key has this record. `is_running`: the holder of the key runs in this process.
    pub(crate) fn from_record(
        of: &Arc<impl OfCall + 'static>,
        record: &Arc<SeenRecord>,
        is_running: bool,
    ) -> Self {
        let call = of.call();
        let records = call.shared.records();
        let has_other_payload = |payload| {
            let read = record.read(records);
            read.is_some_and(|read| read.differs_from(Some(payload)))
        };
        // A call with several keys or permits never replays.
        if call.policy.replay {
            match record.result(records) {
                Ok(Some(_)) if !call.payload.as_ref().is_some_and(has_other_payload) => {
                    return Self(Why::Replay(UnreadReplay::new(
                        Arc::clone(of) as _,
                        Arc::clone(record),
                    )));
                }
                Ok(_) => {}
                Err(found) => return Error::foreign_result(call.site.clone(), found).into(),
            }
        }
        let Some(read) = record.read(records) else {
            return foreign(call, record).into();
        };
        Self::by_holder(call, &read, is_running, record.lives())
    }

    /// The refusal of a call that gets no stored result.
    pub(crate) fn by_holder(
        call: &CallContext,
        record: &Record<'_>,
        is_running: bool,
        lives: Option<Lives>,
    ) -> Self {
        let duplicate = duplicate(call, record, is_running, lives);
        if !duplicate.is_equal() {
            // The holder does other work, however it ends: the call comes again when the key is free.
            return Error::InProgress(duplicate).into();
        }
        if record.differs_from(call.payload.as_ref()) {
            return Error::PayloadMismatch(duplicate).into();
        }
        let why = match duplicate.state() {
            DuplicateState::Unknown if is_kept(lives) && call.policy.replay => {
                "the store had no room for it"
            }
            DuplicateState::Running => return Error::InProgress(duplicate).into(),
            DuplicateState::Unknown if record.is_marked() => {
                return Error::OutcomeUnknown(duplicate).into();
            }
            DuplicateState::Unknown => return Error::Taken(duplicate).into(),
            DuplicateState::Done | DuplicateState::Failed if call.policy.replay => {
                match record.kept() {
                    Kept::Nothing | Kept::Result(_) => return Error::AlreadyDone(duplicate).into(),
                    Kept::TooLarge => {
                        "it was too large to be kept, or the store had no room for it"
                    }
                    Kept::Unencodable | Kept::Unknown => "it could not be written",
                    Kept::Unreadable => "it is sealed, or was stored by a later version",
                }
            }
            DuplicateState::Done => return Error::AlreadyDone(duplicate).into(),
            DuplicateState::Failed => NO_READER,
        };
        without_result(duplicate, why).into()
    }

    /// The refusal of a call whose key has a row in another transaction. That transaction was still open after this call had `waited`,
    /// so its row cannot be read.
    pub(crate) fn still_open(call: &CallContext, waited: Duration) -> Self {
        Error::InProgress(unread(call, waited)).into()
    }

    /// The refusal of a call whose key has a row for another payload, in a transaction of this process, which is still open. `age`: how
    /// long it has the row.
    #[cfg(feature = "sql")]
    pub(crate) fn other_payload(call: &CallContext, age: Duration) -> Self {
        Error::PayloadMismatch(unread(call, age)).into()
    }

    /// The error of a call that does not read the stored result.
    pub fn error(&self) -> &Error {
        match &self.0 {
            Why::Error(error) => error,
            Why::Replay(replay) => replay
                .error
                .get_or_init(|| already_done(replay.of.call(), &replay.record)),
        }
    }

    /// The error, unless there is a stored result to read.
    pub(crate) fn plain_error(&self) -> Option<&Error> {
        match &self.0 {
            Why::Error(error) => Some(error),
            Why::Replay(_) => None,
        }
    }

    /// Does the same as [`error`](Self::error), and emits the end of the call.
    pub fn into_error(self) -> Error {
        match self.read::<Infallible, _>(NoReplay) {
            Ok(none) => match none {},
            Err(error) => error,
        }
    }

    /// The same refusal, if so many calls hold the key.
    pub(crate) fn held_by(self, holders: usize) -> Self {
        match self.0 {
            Why::Error(Error::InProgress(duplicate)) => {
                Error::InProgress(duplicate.held_by(holders)).into()
            }
            why => Self(why),
        }
    }

    /// Emits the end of `call`, unless its stored result must be read first.
    pub(crate) fn emit(&self, call: &CallContext) {
        if let Why::Error(error) = &self.0 {
            call.emit_refusal(error);
        }
    }

    /// Makes the outcome from the stored result, or returns the error if there is no result.
    pub fn read<R, K: ReplayMode<R>>(self, keep: K) -> Result<R, Error> {
        let replay = match self.0 {
            Why::Error(error) => return Err(error),
            Why::Replay(replay) => replay,
        };
        let reading = ResultReading(Some(replay.of.call()));
        let read = replay.stored().and_then(|stored| keep.replay(stored));
        reading.finish();
        match read {
            Some(Ok(outcome)) => {
                replay.end_read();
                Ok(outcome)
            }
            Some(Err(why)) => Err(replay.end_unread(Some(why))),
            None => Err(replay.end_unread(None)),
        }
    }
}

/// The facts about the call that has the key, from its record.
fn duplicate(
    call: &CallContext,
    record: &Record<'_>,
    is_running: bool,
    lives: Option<Lives>,
) -> Duplicate {
    let state = match record.state {
        RecordState::Running if is_kept(lives) && mutation!(KeptIsSuccess) => DuplicateState::Done,
        RecordState::Running if is_kept(lives) => DuplicateState::Unknown,
        RecordState::Done if record.is_failure() => DuplicateState::Failed,
        RecordState::Done => DuplicateState::Done,
        RecordState::Running if record.is_marked() => DuplicateState::Unknown,
        RecordState::Running if is_running || call.policy.release != Release::Never => {
            DuplicateState::Running
        }
        RecordState::Running => DuplicateState::Unknown,
    };
    let now = world::time_of_day();
    let age = record.age(now);
    let left = match lives {
        Some(lives) => lives.until.saturating_duration_since(Instant::now()),
        None => record.remaining_at(match state {
            DuplicateState::Running if call.policy.release != Release::Never => {
                since_renewal(call, age)
            }
            _ => age,
        }),
    };
    Duplicate::new(DuplicateFacts {
        site: call.site.clone(),
        state,
        holder: record.holder().to_owned(),
        age,
        retry_after: match state {
            DuplicateState::Running => call.shared.retry_hint(age).min(left),
            _ => left,
        },
        free_in: Some(left),
        unavailable: None,
        further: call.further,
        is_equal: is_equal(call, record),
        holders: 1,
    })
}

/// The facts about the call that has the key, for a call that cannot read its row. `age`: how long it has the key, at least.
fn unread(call: &CallContext, age: Duration) -> Duplicate {
    Duplicate::new(DuplicateFacts {
        site: call.site.clone(),
        state: DuplicateState::Running,
        holder: String::new(),
        age,
        retry_after: call.shared.retry_hint(age),
        free_in: None,
        unavailable: None,
        further: None,
        is_equal: true,
        holders: 1,
    })
}

/// Whether the call that wrote the record has the same keys as this call. A call with permits is never equal to another: each does its
/// own work.
fn is_equal(call: &CallContext, record: &Record<'_>) -> bool {
    let has_permits = call.policy.most_holders().is_some();
    mutation!(EqualByOneKey) || !has_permits && record.keys() == call.keys
}

fn is_kept(lives: Option<Lives>) -> bool {
    lives.is_some_and(|lives| lives.is_kept)
}

/// How long ago the last renewal came at the latest, if the holder lives: the last that is due may be on its way.
fn since_renewal(call: &CallContext, age: Duration) -> Duration {
    let late = call.times.renewal().min(call.shared.deadline());
    call.times.since_renewal(age.saturating_sub(late)) + age.min(late)
}

/// The error of a call whose key has the record of a call that is done.
fn already_done(call: &CallContext, record: &SeenRecord) -> Error {
    match record.read(call.shared.records()) {
        Some(read) => Error::AlreadyDone(duplicate(call, &read, false, None)),
        None => foreign(call, record),
    }
}

/// The error of a call whose key has a record that is not of a call of this key.
pub(crate) fn foreign(call: &CallContext, record: &SeenRecord) -> Error {
    let records = call.shared.records();
    records.foreign(call.site.clone(), record.bytes())
}

impl UnreadReplay {
    fn new(of: Arc<dyn OfCall>, record: Arc<SeenRecord>) -> Self {
        Self {
            of,
            record,
            error: OnceLock::new(),
        }
    }

    fn stored(&self) -> Option<&Stored> {
        let records = self.of.call().shared.records();
        self.record.result(records).ok().flatten()
    }

    /// Ends the call, which got the stored result.
    fn end_read(&self) {
        self.of.call().emit_end(EventKind::Replayed);
    }

    /// Ends the call, which got no result: it could not be read for this reason, or the call does not read it.
    fn end_unread(&self, why: Option<&'static str>) -> Error {
        let call = self.of.call();
        let is_failure = || self.stored().is_some_and(|stored| stored.failure);
        let why = why.or_else(|| is_failure().then_some(NO_READER));
        let error = match (already_done(call, &self.record), why) {
            (Error::AlreadyDone(duplicate), Some(why)) => without_result(duplicate, why),
            (error, _) => error,
        };
        call.emit_refusal(&error);
        error
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(Why::Error(error))
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("error", self.error())
            .field("has_result", &self.plain_error().is_none())
            .finish()
    }
}

/// Reads a result with code of the caller's crate. If this is dropped before [`finish`](Self::finish), that code panicked.
struct ResultReading<'a>(Option<&'a CallContext>);

impl ResultReading<'_> {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for ResultReading<'_> {
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
        let call = || {
            let mut call = Call::new(Endpoint::named("orders.pay"), policy, Some(idempotency));
            call.part(&1);
            call
        };
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
