//! Duplicates: what becomes of a call that is not the first with its key. It is answered, or it waits for its turn.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use crate::error::{Duplicate, DuplicateState, Error};
use crate::observe::EventKind;
use crate::policy::OnStoreError;
use crate::protocol::claim::{Claiming, NotWon};
use crate::protocol::held::{Guard, Held};
use crate::protocol::in_flight::{Flight, Found, Stage};
use crate::protocol::lease::Lease;
use crate::protocol::poll_limiter::Pauses;
use crate::protocol::redeem;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::Tries;
use crate::store::{Claim, StoreError, StoreErrorKind, Swap};
use crate::world::naive;

/// Claims for a call that is behind an equal one in this process.
pub(crate) async fn behind(lease: Arc<Lease>, other: Arc<Flight>) -> Result<Held, Refusal> {
    let mut turn = Turn::new(lease, Instant::now());
    let span = turn.lease.span.clone();
    let claim = async {
        match turn.follow(other).await {
            Ok((lease, known)) => turn.claim(lease, None, known).await,
            Err(error) => Err(error),
        }
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
    let began = since.unwrap_or_else(Instant::now);
    let mut turn = Turn::new(Arc::clone(&lease), began);
    let span = lease.span.clone();
    let claim = turn.claim(lease, since, Known::Answer(answer));
    let end = claim.instrument(span).await;
    Ok(redeem::redeem(turn.over(end)?).await?)
}

/// The answer to a call that does not wait, by the record that has its key.
pub(crate) fn answered(lease: &Arc<Lease>, record: Bytes) -> Refusal {
    let refusal = Refusal::by(lease, &record, false);
    lease.leave(Some(record));
    refusal.tell(lease);
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

/// What became of a call that was followed.
enum Landed {
    /// It is over.
    Over(Found),
    /// There is nothing to learn from it, so who follows asks the store beside it.
    Silent,
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

/// A call that is not known to be the first with its key.
struct Turn {
    lease: Arc<Lease>,
    /// Until when the store may be asked for a call that does not wait.
    deadline: Instant,
    /// Until when it waits for the end of another call, if it does.
    patience: Option<Instant>,
    pauses: Pauses,
    /// When it began to wait.
    waits_since: Option<Instant>,
    over: bool,
}

impl Turn {
    fn new(lease: Arc<Lease>, began: Instant) -> Self {
        Self {
            deadline: began + lease.shared.deadline(),
            patience: lease.policy.patience().map(|wait| began + wait),
            pauses: Pauses::new(),
            waits_since: None,
            over: false,
            lease,
        }
    }

    /// Tells how it went.
    fn over(&mut self, end: Result<Held, Refusal>) -> Result<Held, Refusal> {
        self.over = true;
        if let Some(since) = self.waits_since {
            let waited = Some(since.elapsed());
            self.lease
                .tell(EventKind::Waited, |event| event.lasted(waited));
        }
        end.inspect_err(|refusal| refusal.tell(&self.lease))
    }

    /// Waits behind `other` until this call may ask the store itself, or is told what the other was.
    async fn follow(&mut self, mut other: Arc<Flight>) -> Result<(Arc<Lease>, Known), Refusal> {
        let mut heard = Heard::default();
        loop {
            let known = match self.landed(&other, &mut heard).await? {
                Landed::Over(Found::Trouble) if self.refuses_without_the_store() => {
                    return Err(unanswered(&self.lease).into());
                }
                Landed::Over(Found::Nothing | Found::Trouble) => Known::Nothing,
                Landed::Over(Found::Record(record)) => {
                    let refusal = Refusal::by(&self.lease, &record, false);
                    if heard.is_news() && self.waits_for(refusal.error()).is_some() {
                        Known::Record(record)
                    } else if heard.is_news() || stays_true(refusal.error()) {
                        return Err(refusal);
                    } else {
                        Known::Nothing
                    }
                }
                Landed::Silent => return Ok((self.lease.again(), Known::Nothing)),
            };
            // The next one asks after this call was made.
            heard = Heard(1);
            match self.lease.enter() {
                Some(next) => other = next,
                None => return Ok((self.lease.again(), known)),
            }
        }
    }

    /// Waits until `other` is over, or has nothing to say any more.
    async fn landed(&mut self, other: &Arc<Flight>, heard: &mut Heard) -> Result<Landed, Refusal> {
        let deadline = self.lease.shared.deadline();
        let followed_since = Instant::now();
        loop {
            // Made before the look, so that a move in between is heard of.
            let moved = other.moved.notified();
            let now = Instant::now();
            let patience = self.patience.filter(|until| *until > now);
            let stage = other.stage();
            let asks = matches!(stage, Stage::Asking(_));
            let mut until = match stage {
                Stage::Over(found) => return Ok(Landed::Over(found)),
                Stage::Asking(answered) => {
                    // If it does not move on by then, nobody polls it any more.
                    let answered =
                        answered.unwrap_or(followed_since + deadline / 4) + deadline / 20;
                    let until = answered.min(self.patience.unwrap_or(self.deadline));
                    let patient = self.patience.is_some();
                    if until <= now
                        && answered > now
                        && !patient
                        && self.refuses_without_the_store()
                    {
                        return Err(unanswered(&self.lease).into());
                    }
                    until
                }
                Stage::Waiting(record) => {
                    let refusal = Refusal::by(&self.lease, &record, false);
                    match patience {
                        _ if matches!(refusal.error(), Error::PayloadMismatch(_)) => {
                            return if heard.is_news() || stays_true(refusal.error()) {
                                Err(refusal)
                            } else {
                                Ok(Landed::Silent)
                            };
                        }
                        Some(patience) => patience,
                        None if heard.is_news() => return Err(refusal),
                        None => return Ok(Landed::Silent),
                    }
                }
                Stage::Held(holder) => {
                    let Some(holder) = holder.upgrade() else {
                        // Nobody is left to say that it is over, and whoever enters would meet it again.
                        let flights = self.lease.shared.flights();
                        flights.leave(other, Found::Nothing);
                        return Ok(Landed::Over(Found::Nothing));
                    };
                    let good_until = holder.good_until();
                    match patience {
                        // Nobody polls it any more: what stands in the store is not its any more, or not for long.
                        _ if good_until <= now => return Ok(Landed::Silent),
                        Some(patience) if !differ(&self.lease.flight, other) => {
                            patience.min(good_until)
                        }
                        _ => return Err(Refusal::by(&self.lease, &holder.record, true)),
                    }
                }
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

    /// Claims until the key is this call's, or another's and the patience is over.
    async fn claim(
        &mut self,
        mut lease: Arc<Lease>,
        mut since: Option<Instant>,
        mut known: Known,
    ) -> Result<Held, Refusal> {
        // The record that was found last, and when its lease ends if it is not renewed.
        let mut standing: Option<(Bytes, Instant)> = None;
        // Its claims that were told that the key is taken. A copy of one may arrive after that.
        let mut ghosts: Vec<Bytes> = Vec::new();
        loop {
            let mut claiming = Claiming::since(&lease, since.take());
            let mut conclusion = self.conclude(&mut claiming, &mut known).await;
            if let Err(NotWon::Taken(record)) = &conclusion {
                let met = ghosts.contains(record);
                ghosts.push(lease.record.clone());
                if met {
                    match self.remove(record).await {
                        Ok(_) => {
                            claiming.hand_on();
                            drop(claiming);
                            lease = lease.again();
                            continue;
                        }
                        // That the key is taken, by this very call, is nothing to tell.
                        Err(trouble) => conclusion = Err(NotWon::Trouble(trouble)),
                    }
                }
            }
            let answered = Instant::now();
            let won = match conclusion {
                Ok(guard) => Ok(guard),
                Err(NotWon::Refused(error)) => return Err(error.into()),
                Err(NotWon::Taken(record)) => {
                    let refusal = Refusal::by(&lease, &record, false);
                    let lasts = refusal.error().duplicate().and_then(Duplicate::free_in);
                    standing = lasts.map(|lasts| (record.clone(), answered + lasts));
                    Err((record, refusal))
                }
                // The store is well, so those who follow are to ask it.
                Err(NotWon::TooLate(late)) => match claiming.without_the_store(late) {
                    Ok(guard) => Ok(guard),
                    Err(error) => {
                        lease.leave(None);
                        return Err(error.into());
                    }
                },
                // That another call has the key is told before that the store is away.
                Err(NotWon::Trouble(trouble)) => match (self.told_of_another(), &standing) {
                    (Some(refusal), _) => return Err(refusal),
                    (None, Some((record, until))) if answered < *until => {
                        Err((record.clone(), Refusal::by(&lease, record, false)))
                    }
                    // The lease of the last holder that was heard of is over, so nothing is known of another.
                    (None, _) => match claiming.without_the_store(trouble) {
                        Ok(guard) => Ok(guard),
                        Err(error) => {
                            lease.leave_in_trouble();
                            return Err(error.into());
                        }
                    },
                },
            };
            let (record, refusal) = match won {
                Ok(guard) => {
                    drop(claiming);
                    return Ok(Held::new(lease, guard));
                }
                Err(found) => found,
            };
            let Some(until) = self.waits_for(refusal.error()) else {
                lease.leave(Some(record));
                return Err(refusal);
            };
            self.waits_since.get_or_insert(answered);
            lease.flight.reach(Stage::Waiting(record.clone()));
            self.pauses.pause(&lease, until).await;
            if until <= Instant::now() && answered.elapsed() < AS_GOOD_AS_NEW {
                lease.leave(Some(record));
                return Err(refusal);
            }
            since = claiming.hand_on();
            drop(claiming);
            if since.is_none() {
                // Its claim was answered, so the next is another, with an owner made anew.
                lease = lease.again();
            }
        }
    }

    /// Removes a claim of this very call that arrived late: no body runs under it.
    async fn remove(&self, ghost: &Bytes) -> Result<Swap, StoreError> {
        let store = self.lease.shared.store();
        let removal = store.remove(self.lease.key(), ghost);
        self.tries().once(removal).await
    }

    async fn conclude(
        &self,
        claiming: &mut Claiming<'_>,
        known: &mut Known,
    ) -> Result<Guard, NotWon> {
        match std::mem::replace(known, Known::Nothing) {
            Known::Record(record) => Err(NotWon::Taken(record)),
            Known::Answer(answer) => {
                let limit = self.lease.shared.deadline();
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

    /// What this call is told of another in this process that has won the key meanwhile.
    fn told_of_another(&self) -> Option<Refusal> {
        match self.lease.beside()?.stage() {
            Stage::Held(holder) => {
                let holder = holder.upgrade()?;
                let good = holder.good_until() > Instant::now();
                good.then(|| Refusal::by(&self.lease, &holder.record, true))
            }
            _ => None,
        }
    }

    fn refuses_without_the_store(&self) -> bool {
        self.lease.policy.on_store_error.unwrap_or_default() == OnStoreError::Refuse
    }

    /// Until when a call that would get this error waits instead, if it does.
    fn waits_for(&self, error: &Error) -> Option<Instant> {
        let may_end = match error {
            Error::InProgress(_) => true,
            // It will be seen to end only if its end is marked.
            Error::Taken(_) => self.lease.policy.marks_the_end(),
            _ => false,
        };
        self.patience
            .filter(|until| may_end && *until > Instant::now() && Handle::try_current().is_ok())
    }

    fn tries(&self) -> Tries {
        let (now, limit) = (Instant::now(), self.lease.shared.deadline());
        let last = self.patience.map_or(self.deadline, |until| until + limit);
        Tries::until(last.clamp(now + limit / 4, now + limit), limit)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.over {
            self.lease.ended(EventKind::of_a_dropped_call());
        }
    }
}

fn unanswered(lease: &Lease) -> Error {
    let silence = "it has not answered an equal call of this process, either";
    let error = StoreError::new(StoreErrorKind::Unknown, silence);
    Error::store(lease.site.clone(), error)
}

/// Whether a call may be told so by an answer of the store that is older than the call.
fn stays_true(error: &Error) -> bool {
    let duplicate = error.duplicate();
    let over = [DuplicateState::Done, DuplicateState::Failed];
    duplicate.is_none_or(|duplicate| over.contains(&duplicate.state()))
}

fn differ(one: &Flight, other: &Flight) -> bool {
    matches!((one.payload, other.payload), (Some(one), Some(other)) if one != other)
}

/// When its time is up, a call asks a last time, unless it has just been told. Of many that came together one asks.
const AS_GOOD_AS_NEW: Duration = Duration::from_millis(25);
