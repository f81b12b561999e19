//! Duplicates: what becomes of a call that is not the first with its key. It is answered, or it waits for its turn.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::Instrument as _;

use crate::claiming::{Claiming, NotWon};
use crate::error::Error;
use crate::flight::{Flight, Stage};
use crate::held::Held;
use crate::lease::Lease;
use crate::observe::EventKind;
use crate::record::{Record, State};
use crate::store::{Claim, StoreError};
use crate::tries::Tries;

/// Claims for a call that is behind an equal one in this process.
pub(crate) async fn behind(lease: Arc<Lease>, other: Arc<Flight>) -> Result<Held, Error> {
    let mut turn = Turn::new(lease, Instant::now());
    let span = turn.lease.span.clone();
    let claim = async {
        match turn.follow(other).await {
            Ok((lease, known)) => turn.claim(lease, None, known).await,
            Err(error) => Err(error),
        }
    };
    let end = claim.instrument(span).await;
    turn.over(end)
}

/// Claims for a call whose first answer was not a plain yes.
pub(crate) async fn after(
    lease: Arc<Lease>,
    since: Option<Instant>,
    answer: Result<Claim, StoreError>,
) -> Result<Held, Error> {
    let began = since.unwrap_or_else(Instant::now);
    let mut turn = Turn::new(Arc::clone(&lease), began);
    let span = lease.span.clone();
    let claim = turn.claim(lease, since, Known::Answer(answer));
    let end = claim.instrument(span).await;
    turn.over(end)
}

/// What a call that claims knows already.
enum Known {
    Nothing,
    /// The answer to its claim.
    Answer(Result<Claim, StoreError>),
    /// The record that stood under the key a moment ago.
    Record(Bytes),
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
            deadline: began + lease.idempotency.deadline(),
            patience: lease.policy.patience().map(|wait| began + wait),
            pauses: Pauses::new(),
            waits_since: None,
            over: false,
            lease,
        }
    }

    /// Tells how it went.
    fn over(&mut self, end: Result<Held, Error>) -> Result<Held, Error> {
        self.over = true;
        if let Some(since) = self.waits_since {
            let waited = Some(since.elapsed());
            self.lease
                .tell(EventKind::Waited, |event| event.lasted(waited));
        }
        end.inspect_err(|error| {
            if !error.has_result() {
                self.lease.refused(error);
            }
        })
    }

    /// Waits behind `other` until this call may ask the store itself, or is told what the other was.
    async fn follow(&mut self, mut other: Arc<Flight>) -> Result<(Arc<Lease>, Known), Error> {
        // The first answer of the store that is heard of may be older than this call: then only what stays true
        // counts.
        let mut answers = 0;
        loop {
            let known = match self.landed(&other, &mut answers).await? {
                // There is nothing to learn from the other, so this call asks the store beside it.
                Stage::Asking | Stage::Waiting(_) => {
                    return Ok((self.lease.again(), Known::Nothing));
                }
                Stage::Held(record) => return Err(told(&self.lease, &record, true)),
                Stage::Over(Some(record)) if answers > 1 || is_done(&record) => {
                    let error = told(&self.lease, &record, false);
                    if self.waits_for(&error).is_none() {
                        return Err(error);
                    }
                    Known::Record(record)
                }
                Stage::Over(_) => Known::Nothing,
            };
            answers = answers.max(1);
            let lease = self.lease.again();
            match lease.enter() {
                Some(next) => other = next,
                None => return Ok((lease, known)),
            }
        }
    }

    /// Waits until `other` is over, or this call does not wait for it any more; answers with its stage then.
    async fn landed(&mut self, other: &Flight, answers: &mut u32) -> Result<Stage, Error> {
        loop {
            let mut moved = pin!(other.moved.notified());
            // Registered before the look, or the other could move on in between unseen.
            moved.as_mut().enable();
            let stage = other.stage();
            let until = match &stage {
                // Some time is left for the store, should the other not be polled any more.
                Stage::Asking => Some(self.deadline - self.lease.idempotency.deadline() / 4),
                Stage::Held(record) if differ(&self.lease.flight, other) => {
                    return Err(told(&self.lease, record, true));
                }
                Stage::Waiting(record)
                    if self.patience.is_some_and(|until| until <= Instant::now()) =>
                {
                    return Err(told(&self.lease, record, false));
                }
                Stage::Waiting(_) | Stage::Held(_) => self.patience,
                Stage::Over(_) => None,
            };
            // Outside of a runtime there are no alarms.
            match until.filter(|_| Handle::try_current().is_ok()) {
                Some(until) if until > Instant::now() => {
                    if !matches!(stage, Stage::Asking) {
                        self.waits_since.get_or_insert_with(Instant::now);
                    }
                    let heard = timeout_at(until, moved).await.is_ok();
                    *answers += u32::from(heard);
                }
                _ => return Ok(stage),
            }
        }
    }

    /// Claims until the key is this call's, or another's and the patience is over.
    async fn claim(
        &mut self,
        mut lease: Arc<Lease>,
        mut since: Option<Instant>,
        mut known: Known,
    ) -> Result<Held, Error> {
        loop {
            let mut claiming = Claiming::since(&lease, since.take());
            let record = match std::mem::replace(&mut known, Known::Nothing) {
                Known::Record(record) => record,
                known => {
                    let tries = self.tries();
                    let answer = match known {
                        Known::Answer(answer) => answer,
                        _ => tries.once(claiming.send()).await,
                    };
                    match claiming.conclude(answer, tries).await {
                        Ok(guard) => {
                            drop(claiming);
                            return Ok(Held::new(lease, guard));
                        }
                        Err(NotWon::Refused(error)) => return Err(error),
                        Err(NotWon::Taken(record)) => record,
                    }
                }
            };
            let answered = Instant::now();
            let error = told(&lease, &record, false);
            let Some(until) = self.waits_for(&error) else {
                lease.leave(Some(record));
                return Err(error);
            };
            self.waits_since.get_or_insert(answered);
            lease.flight.reach(Stage::Waiting(record.clone()));
            self.pauses.pause(&lease, until).await;
            if until <= Instant::now() && answered.elapsed() < MEASURE {
                // What is known is as good as new.
                lease.leave(Some(record));
                return Err(error);
            }
            claiming.hand_on();
            drop(claiming);
            // Its claim was answered, so the next is another, with an owner made anew.
            lease = lease.again();
        }
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
        let (now, limit) = (Instant::now(), self.lease.idempotency.deadline());
        Tries::until(
            match self.patience {
                Some(_) => now + limit,
                None => self.deadline.max(now + limit / 4),
            },
            limit,
        )
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.over {
            self.lease.ended(EventKind::Cancelled);
        }
    }
}

/// When a call that waits asks the store again.
struct Pauses {
    asked: bool,
    changes: Option<watch::Receiver<()>>,
    pause: Duration,
    /// How far this call is ahead of one operation in each [`MEASURE`].
    spent: Option<Instant>,
}

impl Pauses {
    fn new() -> Self {
        Self {
            asked: false,
            changes: None,
            pause: MEASURE,
            spent: None,
        }
    }

    /// Waits until what stands under the key may have changed, and not beyond `until`.
    async fn pause(&mut self, lease: &Lease, until: Instant) {
        if !std::mem::replace(&mut self.asked, true) {
            let listening = lease.idempotency.store().changed(lease.key());
            let limit = until.min(Instant::now() + lease.idempotency.deadline() / 4);
            self.changes = timeout_at(limit, listening).await.ok().flatten();
            if self.changes.is_some() {
                // What changed before is not heard of, so the store is asked once more.
                return;
            }
        }
        let now = Instant::now();
        let again = until.min(now + self.pause.mul_f64(rand::random_range(1.0..1.5)));
        self.pause = (self.pause * 3 / 2).min(LONGEST_PAUSE);
        if let Some(changes) = &mut self.changes {
            match timeout_at(again, changes.changed()).await {
                Ok(Ok(())) => {
                    let now = Instant::now();
                    let spent = self.spent.map_or(now, |spent| spent.max(now)) + MEASURE;
                    self.spent = Some(spent);
                    // A key that changes all the time is not asked for all the time.
                    let ahead = spent.duration_since(now).saturating_sub(BURST);
                    sleep_until(until.min(now + ahead)).await;
                    return;
                }
                Ok(Err(_)) => {
                    self.changes = None;
                    self.asked = false;
                }
                Err(_) => return,
            }
        }
        sleep_until(again).await;
    }
}

/// What a call is told whose key has this record; `running` says that the call which put it runs for certain.
fn told(lease: &Arc<Lease>, record: &Bytes, running: bool) -> Error {
    match Record::read(record) {
        Some(record) => Error::taken(lease, &record, running),
        None => Error::foreign(lease.site.clone()),
    }
}

fn is_done(record: &Bytes) -> bool {
    Record::read(record).is_none_or(|record| record.state == State::Done)
}

fn differ(one: &Flight, other: &Flight) -> bool {
    matches!((one.payload, other.payload), (Some(one), Some(other)) if one != other)
}

/// One operation in so much time, for each call that waits.
const MEASURE: Duration = Duration::from_millis(100);
/// So much time's operations may be made at once.
const BURST: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
