//! Duplicates of a call that this process runs: they follow that call, the leader, and do not ask the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use crate::error::{DuplicateState, Error};
use crate::policy::deadline::first_try;
use crate::protocol::in_flight::InFlight;
use crate::protocol::refusal::Refusal;
use crate::protocol::state::{LastSeen, Phase, Snapshot};
use crate::protocol::waiter::Waiter;
use crate::world::mutant;

impl Waiter {
    /// Follows `leader` until this call may ask the store itself, or is refused because of what the leader has learned. Returns the
    /// record that was in the store a moment ago, if that is known.
    pub(crate) async fn follow(
        &mut self,
        mut leader: Arc<InFlight>,
    ) -> Result<Option<Bytes>, Refusal> {
        let mut freshness = Freshness::default();
        loop {
            let record = match self.await_leader(&leader, &mut freshness).await? {
                LeaderOutcome::Ended(LastSeen::Unavailable) if self.refuses_without_store() => {
                    return Err(self.unanswered());
                }
                LeaderOutcome::Ended(LastSeen::Unknown | LastSeen::Unavailable) => None,
                LeaderOutcome::Ended(LastSeen::Record(record)) => {
                    let refusal = self.refusal(&record, false);
                    if freshness.is_fresh() && self.wait_limit(refusal.error()).is_some() {
                        Some(record)
                    } else if freshness.is_fresh() || is_final(refusal.error()) {
                        return Err(refusal);
                    } else {
                        None
                    }
                }
                LeaderOutcome::Silent => return Ok(None),
            };
            // The next leader sends its claim after this call was made.
            freshness = Freshness(1);
            match self.lease.enter() {
                Some(next) => leader = next,
                None => return Ok(record),
            }
        }
    }

    /// Waits until `leader` has ended, or nothing more can be learned from it.
    async fn await_leader(
        &mut self,
        leader: &Arc<InFlight>,
        freshness: &mut Freshness,
    ) -> Result<LeaderOutcome, Refusal> {
        let following_since = Instant::now();
        loop {
            // Listens before it looks, so that it misses no change in between.
            let changed = leader.phase_changed.notified();
            let now = Instant::now();
            let seen = leader.snapshot_as_follower();
            let is_asking = matches!(seen.phase, Phase::Asking(_));
            let step = match &seen.phase {
                Phase::Ended(last_seen) => Step::Stop(LeaderOutcome::Ended(last_seen.clone())),
                Phase::Asking(answer_due) => {
                    let limit = self.lease.call.shared.deadline();
                    let due = answer_due.unwrap_or(following_since + first_try(limit));
                    // A leader without a new phase by then is not polled any more.
                    self.behind_asking(due + limit / 20, now)?
                }
                Phase::Waiting(record) => self.behind_waiting(record, freshness, now)?,
                Phase::Running | Phase::Settling | Phase::Dropped | Phase::Lost(_) => {
                    self.behind_holder(leader, &seen, now)?
                }
            };
            let mut until = match step {
                Step::Wait(until) => until,
                Step::Stop(outcome) => return Ok(outcome),
            };
            if is_asking && mutant!(FrozenLeaderFollowed) {
                until = now + Duration::from_hours(1);
            }
            // Outside of a runtime there are no timers.
            if until <= now || Handle::try_current().is_err() {
                return Ok(LeaderOutcome::Silent);
            }
            if !is_asking {
                self.waiting_since.get_or_insert(now);
            }
            if timeout_at(until, changed).await.is_ok() {
                freshness.0 += 1;
            }
        }
    }

    /// The leader has the store's answer by `due`, or asks again.
    fn behind_asking(&self, due: Instant, now: Instant) -> Result<Step, Refusal> {
        let until = due.min(self.wait_until.unwrap_or(self.ask_until));
        let waits = self.wait_until.is_some();
        if until <= now && due > now && !waits && self.refuses_without_store() {
            return Err(self.unanswered());
        }
        Ok(Step::Wait(until))
    }

    /// The leader waits for a call of another process, which has this record.
    fn behind_waiting(
        &self,
        record: &Bytes,
        freshness: &Freshness,
        now: Instant,
    ) -> Result<Step, Refusal> {
        let refusal = self.refusal(record, false);
        match self.wait_until.filter(|until| *until > now) {
            _ if matches!(refusal.error(), Error::PayloadMismatch(_)) => {
                if freshness.is_fresh() || is_final(refusal.error()) {
                    Err(refusal)
                } else {
                    Ok(Step::Stop(LeaderOutcome::Silent))
                }
            }
            Some(until) => Ok(Step::Wait(until)),
            None if freshness.is_fresh() => Err(refusal),
            None => Ok(Step::Stop(LeaderOutcome::Silent)),
        }
    }

    /// The leader has the key.
    fn behind_holder(
        &self,
        leader: &InFlight,
        seen: &Snapshot,
        now: Instant,
    ) -> Result<Step, Refusal> {
        match self.wait_until.filter(|until| *until > now) {
            // The leader is not polled any more. Its record has expired, or expires soon.
            _ if seen.good_until <= now => Ok(Step::Stop(LeaderOutcome::Silent)),
            Some(until) if !self.lease.in_flight.differs_from(leader) => {
                Ok(Step::Wait(until.min(seen.good_until)))
            }
            _ => Err(self.refusal(&seen.record, true)),
        }
    }
}

/// What became of a leader.
enum LeaderOutcome {
    Ended(LastSeen),
    /// Nothing more can be learned from it, so its followers ask the store themselves.
    Silent,
}

/// What a follower does next.
enum Step {
    /// Waits for the next phase, at most until this instant.
    Wait(Instant),
    /// Stops following.
    Stop(LeaderOutcome),
}

/// Counts state changes of the leader seen since this call began.
///
/// The first may report a claim sent *before* this call existed, so it must not refuse it; from the second on, the news is younger than
/// the call.
#[derive(Default)]
struct Freshness(u32);

impl Freshness {
    /// Whether the last news is no older than this call.
    fn is_fresh(&self) -> bool {
        self.0 > 1 || mutant!(OldAnswerBelieved)
    }
}

/// Whether an answer of the store that is older than the call still refuses the call.
fn is_final(error: &Error) -> bool {
    let duplicate = error.duplicate();
    let ended = [DuplicateState::Done, DuplicateState::Failed];
    duplicate.is_none_or(|duplicate| ended.contains(&duplicate.state()))
}
