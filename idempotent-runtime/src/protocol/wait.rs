//! Duplicates: what becomes of a call that is not the first with its key. It is answered, or it waits for its turn.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::error::Duplicate;
use crate::policy::deadline::first_try;
use crate::protocol::claim::{Claiming, NotWon};
use crate::protocol::held::{Guard, Held};
use crate::protocol::in_flight::Flight;
use crate::protocol::lease::Lease;
use crate::protocol::redeem;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::Tries;
use crate::protocol::state::Phase;
use crate::protocol::turn::Turn;
use crate::store::{Claim, StoreError};

/// Claims for a call that is behind an equal one in this process.
pub(crate) async fn behind(lease: Arc<Lease>, other: Arc<Flight>) -> Result<Held, Refusal> {
    let span = lease.call.span.clone();
    let mut turn = Turn::new(lease, Instant::now());
    let claim = async {
        let known = turn.follow(other).await?;
        // The time in the record of the first claim is when the call was made, which may be long ago.
        turn.lease = turn.lease.again();
        turn.claim(None, known.map_or(Known::Nothing, Known::Record))
            .await
    };
    let end = claim.instrument(span).await;
    Ok(redeem::redeem(turn.over(end)?).await?)
}

/// Claims for a call whose first answer was not a plain yes.
pub(crate) async fn after(
    lease: Arc<Lease>,
    since: Option<Instant>,
    answer: Result<Claim, StoreError>,
) -> Result<Held, Refusal> {
    let span = lease.call.span.clone();
    let mut turn = Turn::new(lease, since.unwrap_or_else(Instant::now));
    let claim = turn.claim(since, Known::Answer(answer));
    let end = claim.instrument(span).await;
    Ok(redeem::redeem(turn.over(end)?).await?)
}

/// The answer to a call that does not wait, by the record that has its key.
pub(crate) fn answered(lease: &Lease, record: Bytes) -> Refusal {
    let refusal = Refusal::by(&lease.call, &record, false);
    lease.leave(Some(record));
    refusal.tell(&lease.call);
    refusal
}

/// What a call that claims knows already.
enum Known {
    Nothing,
    /// The answer to its claim.
    Answer(Result<Claim, StoreError>),
    /// The record that stood under the key a moment ago.
    Record(Bytes),
}

/// What an answer to a claim comes to.
enum Verdict {
    /// The call may run its body.
    Won(Guard),
    /// Another call has the key by this record.
    Taken(Bytes, Refusal),
}

/// The record that was found last, and when its lease ends if it is not renewed.
type LastFound = Option<(Bytes, Instant)>;

impl Turn {
    /// Claims until the key is this call's, or another's and the patience is over.
    async fn claim(
        &mut self,
        mut since: Option<Instant>,
        mut known: Known,
    ) -> Result<Held, Refusal> {
        let mut last_found = None;
        let mut stray = StrayClaims::default();
        loop {
            let lease = Arc::clone(&self.lease);
            let mut claiming = Claiming::since(&lease, since.take());
            let conclusion = self.conclude(&mut claiming, &mut known).await;
            let Some(conclusion) = self.not_a_stray(&mut stray, conclusion).await else {
                claiming.hand_on();
                drop(claiming);
                self.lease = lease.again();
                continue;
            };
            let answered = Instant::now();
            let verdict = self.judge(&mut claiming, conclusion, &mut last_found, answered)?;
            let (record, refusal) = match verdict {
                Verdict::Won(guard) => {
                    drop(claiming);
                    return Ok(Held::new(lease, guard));
                }
                Verdict::Taken(record, refusal) => (record, refusal),
            };
            let Some(until) = self.waits_for(refusal.error()) else {
                lease.leave(Some(record));
                return Err(refusal);
            };
            self.waits_since.get_or_insert(answered);
            lease.flight.reach(Phase::Waiting(record.clone()));
            self.pauses.pause(&lease.call, until).await;
            if until <= Instant::now() && answered.elapsed() < AS_GOOD_AS_NEW {
                lease.leave(Some(record));
                return Err(refusal);
            }
            since = claiming.hand_on();
            drop(claiming);
            if since.is_none() {
                // Its claim was answered, so the next is another, with an owner made anew.
                self.lease = lease.again();
            }
        }
    }

    /// What an answer to a claim comes to. An error ends the call.
    fn judge(
        &self,
        claiming: &mut Claiming<'_>,
        conclusion: Result<Guard, NotWon>,
        last_found: &mut LastFound,
        answered: Instant,
    ) -> Result<Verdict, Refusal> {
        match conclusion {
            Ok(guard) => Ok(Verdict::Won(guard)),
            Err(NotWon::Refused(error)) => Err(error.into()),
            Err(NotWon::Taken(record)) => {
                let refusal = self.refusal(&record, false);
                let lasts = refusal.error().duplicate().and_then(Duplicate::free_in);
                *last_found = lasts.map(|lasts| (record.clone(), answered + lasts));
                Ok(Verdict::Taken(record, refusal))
            }
            // The store is well, so those who follow are to ask it.
            Err(NotWon::TooLate(late)) => match claiming.without_the_store(late) {
                Ok(guard) => Ok(Verdict::Won(guard)),
                Err(error) => {
                    self.lease.leave(None);
                    Err(error.into())
                }
            },
            Err(NotWon::Trouble(trouble)) => {
                self.judge_trouble(claiming, trouble, last_found.as_ref(), answered)
            }
        }
    }

    /// The same while the store is away. That another call has the key is told before that.
    fn judge_trouble(
        &self,
        claiming: &mut Claiming<'_>,
        trouble: StoreError,
        last_found: Option<&(Bytes, Instant)>,
        answered: Instant,
    ) -> Result<Verdict, Refusal> {
        if let Some(refusal) = self.refusal_of_another() {
            return Err(refusal);
        }
        match last_found {
            Some((record, until)) if answered < *until => {
                Ok(Verdict::Taken(record.clone(), self.refusal(record, false)))
            }
            // The lease of the last holder that was heard of is over, so nothing is known of another.
            _ => match claiming.without_the_store(trouble) {
                Ok(guard) => Ok(Verdict::Won(guard)),
                Err(error) => {
                    self.lease.leave_in_trouble();
                    Err(error.into())
                }
            },
        }
    }

    /// The conclusion, unless it is that an earlier claim of this very call has the key: that claim is removed, because no body
    /// runs under it, and the call claims again.
    async fn not_a_stray(
        &self,
        stray: &mut StrayClaims,
        conclusion: Result<Guard, NotWon>,
    ) -> Option<Result<Guard, NotWon>> {
        let Err(NotWon::Taken(record)) = &conclusion else {
            return Some(conclusion);
        };
        let met = stray.0.contains(record);
        stray.0.push(self.lease.record.clone());
        if !met {
            return Some(conclusion);
        }
        let store = self.lease.call.shared.store();
        match self
            .tries()
            .once(store.remove(self.lease.key(), record))
            .await
        {
            Ok(_) => None,
            // That the key is taken, by this very call, is nothing to tell.
            Err(trouble) => Some(Err(NotWon::Trouble(trouble))),
        }
    }

    async fn conclude(
        &self,
        claiming: &mut Claiming<'_>,
        known: &mut Known,
    ) -> Result<Guard, NotWon> {
        match std::mem::replace(known, Known::Nothing) {
            Known::Record(record) => Err(NotWon::Taken(record)),
            Known::Answer(answer) => {
                let limit = self.lease.call.shared.deadline();
                let tries = Tries::until(self.deadline, limit);
                claiming.conclude(answer, tries).await
            }
            Known::Nothing => {
                let tries = self.tries();
                let answer = claiming.ask(&tries).await;
                claiming.conclude(answer, tries).await
            }
        }
    }

    /// The refusal by another call of this process that has won the key meanwhile.
    fn refusal_of_another(&self) -> Option<Refusal> {
        let seen = self.lease.beside()?.look();
        let holds = match seen.phase {
            Phase::Running | Phase::Settling | Phase::Dropped | Phase::Lost(_) => true,
            Phase::Asking(_) | Phase::Waiting(_) | Phase::Over(_) => false,
        };
        (holds && seen.good_until > Instant::now()).then(|| self.refusal(&seen.record, true))
    }

    fn tries(&self) -> Tries {
        let (now, limit) = (Instant::now(), self.lease.call.shared.deadline());
        let last = self.patience.map_or(self.deadline, |until| until + limit);
        Tries::until(last.clamp(now + first_try(limit), now + limit), limit)
    }
}

/// The claims of one call that were answered with "taken". A copy of one may arrive at the store after that.
#[derive(Default)]
struct StrayClaims(Vec<Bytes>);

/// When its time is up, a call asks a last time, unless it has just been told. Of many that came together one asks.
const AS_GOOD_AS_NEW: Duration = Duration::from_millis(25);
