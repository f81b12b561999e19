//! Why a call was refused.

pub(crate) mod advice;
mod call;
pub(crate) mod catalog;
pub(crate) mod closest;
mod duplicate;
mod failure;
pub(crate) mod lang;
mod limited;
#[cfg(test)]
mod samples;
mod setup;
pub(crate) mod store;

use std::sync::Arc;
use std::time::Duration;

use self::duplicate::{Asking, FirstResult, Known, NO_READER, Reading};
use crate::observe::EventKind;
use crate::policy::Release;
use crate::protocol::lease::Lease;
use crate::record::call::{Record, State};
use crate::record::kept::Kept;
use crate::world;

pub use self::call::Error;
pub use self::duplicate::{Duplicate, DuplicateState};
pub use self::failure::Failure;
pub(crate) use self::failure::Site;
pub use self::limited::Limited;
pub use self::setup::SetupError;

impl Error {
    /// What a call is told whose key has this record; `running` says that the call which put it runs for certain.
    pub(crate) fn taken(lease: &Arc<Lease>, record: &Record<'_>, running: bool) -> Self {
        let state = match record.state {
            State::Done if record.is_failure() => DuplicateState::Failed,
            State::Done => DuplicateState::Done,
            State::Running if running || lease.policy.release != Release::Never => {
                DuplicateState::Running
            }
            State::Running => DuplicateState::Unknown,
        };
        let now = world::time_of_day();
        let (age, left) = (record.age(now), record.left(now));
        let mut known = Box::new(Known {
            site: lease.site.clone(),
            state,
            holder: record.holder.to_owned(),
            age,
            retry_after: match state {
                DuplicateState::Running => lease.shared.retry_hint(age).min(left),
                _ => left,
            },
            free_in: Some(left),
            result: FirstResult::NotAsked,
        });
        if record.differs_from(lease.flight.payload.as_ref()) {
            return Self::PayloadMismatch(Duplicate(known));
        }
        match state {
            DuplicateState::Running => Self::InProgress(Duplicate(known)),
            DuplicateState::Unknown => Self::Taken(Duplicate(known)),
            DuplicateState::Done if !lease.policy.replay => Self::AlreadyDone(Duplicate(known)),
            DuplicateState::Failed if !lease.policy.replay => {
                known.result = FirstResult::Unavailable(NO_READER);
                Self::ResultUnavailable(Duplicate(known))
            }
            DuplicateState::Done | DuplicateState::Failed => {
                known.result = match record.kept() {
                    Kept::Nothing => FirstResult::NotAsked,
                    Kept::Result(stored) => FirstResult::Stored(stored, Asking(Arc::clone(lease))),
                    Kept::TooLarge => FirstResult::Unavailable("it was too large to be kept"),
                    Kept::Unencodable => FirstResult::Unavailable("it could not be written"),
                    Kept::Unreadable => {
                        FirstResult::Unavailable("it was stored by a later version")
                    }
                };
                match known.result {
                    FirstResult::Unavailable(_) => Self::ResultUnavailable(Duplicate(known)),
                    _ => Self::AlreadyDone(Duplicate(known)),
                }
            }
        }
    }

    /// What a call is told whose key is that of a transaction which was still open after this call had `waited`: the
    /// record is not to be seen.
    pub(crate) fn still_open(lease: &Lease, waited: Duration) -> Self {
        Self::InProgress(Duplicate(Box::new(Known {
            site: lease.site.clone(),
            state: DuplicateState::Running,
            holder: String::new(),
            age: waited,
            retry_after: lease.shared.retry_hint(waited),
            free_in: None,
            result: FirstResult::NotAsked,
        })))
    }

    /// Whether it is told of as ended only when its result was looked at.
    pub(crate) fn has_result(&self) -> bool {
        self.duplicate()
            .is_some_and(|duplicate| duplicate.stored().is_some())
    }

    /// The outcome that `answer` makes of the first call's result; if there is none, this as it is told then.
    pub(crate) fn replayed<R>(
        self,
        answer: impl FnOnce(&Duplicate) -> Option<Result<R, &'static str>>,
    ) -> Result<R, Self> {
        let lease = match self.duplicate().map(|duplicate| &duplicate.0.result) {
            Some(FirstResult::Stored(_, Asking(lease))) => Arc::clone(lease),
            _ => return Err(self),
        };
        let reading = Reading(Some(&lease));
        let answer = self.duplicate().and_then(answer);
        reading.done();
        let error = match (answer, self.into_duplicate()) {
            (Some(Ok(outcome)), _) => {
                lease.ended(EventKind::Replayed);
                return Ok(outcome);
            }
            (Some(Err(why)), Ok(mut duplicate)) => {
                duplicate.0.result = FirstResult::Unavailable(why);
                Self::ResultUnavailable(duplicate)
            }
            (_, Ok(mut duplicate)) if duplicate.state() == DuplicateState::Failed => {
                duplicate.0.result = FirstResult::Unavailable(NO_READER);
                Self::ResultUnavailable(duplicate)
            }
            (_, Ok(mut duplicate)) => {
                duplicate.0.result = FirstResult::NotAsked;
                Self::AlreadyDone(duplicate)
            }
            (_, Err(error)) => error,
        };
        lease.refused(&error);
        Err(error)
    }
}
