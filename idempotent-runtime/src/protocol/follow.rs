//! Duplicates of a call that runs in this process: they follow that call and do not ask the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use crate::error::{DuplicateState, Error};
use crate::policy::deadline::first_try;
use crate::protocol::in_flight::Flight;
use crate::protocol::refusal::Refusal;
use crate::protocol::state::{Found, Phase, Seen};
use crate::protocol::turn::Turn;
use crate::world::naive;

impl Turn {
    /// Waits behind `other` until this call may ask the store itself, or is refused by what the other was. Returns the record that
    /// was in the store a moment ago, if that is known.
    pub(crate) async fn follow(
        &mut self,
        mut other: Arc<Flight>,
    ) -> Result<Option<Bytes>, Refusal> {
        let mut heard = Heard::default();
        loop {
            let known = match self.landed(&other, &mut heard).await? {
                Landed::Over(Found::Trouble) if self.refuses_without_the_store() => {
                    return Err(self.unanswered());
                }
                Landed::Over(Found::Nothing | Found::Trouble) => None,
                Landed::Over(Found::Record(record)) => {
                    let refusal = self.refusal(&record, false);
                    if heard.is_news() && self.waits_for(refusal.error()).is_some() {
                        Some(record)
                    } else if heard.is_news() || stays_true(refusal.error()) {
                        return Err(refusal);
                    } else {
                        None
                    }
                }
                Landed::Silent => return Ok(None),
            };
            // The next one asks after this call was made.
            heard = Heard(1);
            match self.lease.enter() {
                Some(next) => other = next,
                None => return Ok(known),
            }
        }
    }

    /// Waits until `other` is over, or has nothing to say any more.
    async fn landed(&mut self, other: &Arc<Flight>, heard: &mut Heard) -> Result<Landed, Refusal> {
        let followed_since = Instant::now();
        loop {
            // Made before the look, so that a move in between is heard of.
            let moved = other.moved.notified();
            let now = Instant::now();
            let seen = other.subscribe();
            let asks = matches!(seen.phase, Phase::Asking(_));
            let step = match &seen.phase {
                Phase::Over(found) => Step::Stop(Landed::Over(found.clone())),
                Phase::Asking(answered) => {
                    let limit = self.lease.call.shared.deadline();
                    let answered = answered.unwrap_or(followed_since + first_try(limit));
                    // If it does not move on by then, nobody polls it any more.
                    self.behind_one_that_asks(answered + limit / 20, now)?
                }
                Phase::Waiting(record) => self.behind_one_that_waits(record, heard, now)?,
                Phase::Running | Phase::Settling | Phase::Dropped | Phase::Lost(_) => {
                    self.behind_the_holder(other, &seen, now)?
                }
            };
            let mut until = match step {
                Step::Wait(until) => until,
                Step::Stop(landed) => return Ok(landed),
            };
            if asks && naive!(FrozenLeaderFollowed) {
                until = now + Duration::from_hours(1);
            }
            // Outside of a runtime there are no alarms.
            if until <= now || Handle::try_current().is_err() {
                return Ok(Landed::Silent);
            }
            if !asks {
                self.waits_since.get_or_insert(now);
            }
            if timeout_at(until, moved).await.is_ok() {
                heard.0 += 1;
            }
        }
    }

    /// The store will have answered the other call by then, or be asked again.
    fn behind_one_that_asks(&self, answered: Instant, now: Instant) -> Result<Step, Refusal> {
        let until = answered.min(self.patience.unwrap_or(self.deadline));
        let patient = self.patience.is_some();
        if until <= now && answered > now && !patient && self.refuses_without_the_store() {
            return Err(self.unanswered());
        }
        Ok(Step::Wait(until))
    }

    /// The other call waits for the end of one that was made elsewhere, whose record this is.
    fn behind_one_that_waits(
        &self,
        record: &Bytes,
        heard: &Heard,
        now: Instant,
    ) -> Result<Step, Refusal> {
        let refusal = self.refusal(record, false);
        match self.patience.filter(|until| *until > now) {
            _ if matches!(refusal.error(), Error::PayloadMismatch(_)) => {
                if heard.is_news() || stays_true(refusal.error()) {
                    Err(refusal)
                } else {
                    Ok(Step::Stop(Landed::Silent))
                }
            }
            Some(patience) => Ok(Step::Wait(patience)),
            None if heard.is_news() => Err(refusal),
            None => Ok(Step::Stop(Landed::Silent)),
        }
    }

    /// The other call has the key.
    fn behind_the_holder(
        &self,
        other: &Flight,
        seen: &Seen,
        now: Instant,
    ) -> Result<Step, Refusal> {
        match self.patience.filter(|until| *until > now) {
            // Nobody polls it any more: what is in the store is another's by now, or not there for long.
            _ if seen.good_until <= now => Ok(Step::Stop(Landed::Silent)),
            Some(patience) if !self.lease.flight.differs_from(other) => {
                Ok(Step::Wait(patience.min(seen.good_until)))
            }
            _ => Err(self.refusal(&seen.record, true)),
        }
    }
}

/// What became of a call that was followed.
enum Landed {
    /// It is over.
    Over(Found),
    /// There is nothing to learn from it, so who follows asks the store beside it.
    Silent,
}

/// What a call does about one that it follows.
enum Step {
    /// It waits for the next phase, until then.
    Wait(Instant),
    /// It follows no more.
    Stop(Landed),
}

/// How many moves of another call were heard of since this one was made.
///
/// A claim may have been sent before this call was made and be answered after: what the first move tells may be older
/// than the call, and refuse it for a holder that the caller knows to be gone. The second move tells of a claim that
/// was sent after the first.
#[derive(Default)]
struct Heard(u32);

impl Heard {
    /// Whether what was told last is no older than this call.
    fn is_news(&self) -> bool {
        self.0 > 1 || naive!(OldAnswerBelieved)
    }
}

/// Whether a call may be told so by an answer of the store that is older than the call.
fn stays_true(error: &Error) -> bool {
    let duplicate = error.duplicate();
    let over = [DuplicateState::Done, DuplicateState::Failed];
    duplicate.is_none_or(|duplicate| over.contains(&duplicate.state()))
}
