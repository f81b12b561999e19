//! Duplicates that ask the store: each is refused, gets the result of the first call, or waits until the key is free.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::protocol::claim::{ClaimGuard, NotWon};
use crate::protocol::expiry;
use crate::protocol::fence;
use crate::protocol::follow::{Following, MayAsk};
use crate::protocol::held::{Guard, Held};
use crate::protocol::lease::Lease;
use crate::protocol::permit::{self, TakenKey};
use crate::protocol::redeem;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::{Backoff, StoreAttempt};
use crate::protocol::seen::SeenRecord;
use crate::protocol::state::Phase;
use crate::protocol::stuck;
use crate::protocol::unrecorded;
use crate::protocol::waiter::{WaitLimits, Waiter};
use crate::store::{Claim, StoreError};

/// Claims one key of a call with several keys. `refused` is the record of its claim that the store has not accepted.
pub(crate) async fn claim(lease: Arc<Lease>, refused: Option<Bytes>) -> Result<Held, Refusal> {
    let may_ask = match lease.enter() {
        Some(leader) => Following::new(lease, leader).await?,
        None => MayAsk {
            limits: WaitLimits::new(lease.call(), Instant::now()),
            lease,
            record: None,
        },
    };
    ask_after(may_ask, refused).await
}

/// Claims a permit of the key. The call follows no other call of this process. If it waits, it stands in a [line](crate::protocol::line).
pub(crate) async fn claim_permit(lease: Arc<Lease>) -> Result<Held, Refusal> {
    let span = lease.call().span.clone();
    let limits = WaitLimits::new(lease.call(), Instant::now());
    let mut waiter = Waiter::new(lease, limits);
    let claim = async {
        waiter.stand_in_line().await?;
        match waiter.claim_free_slot().await {
            Some(end) => end,
            None => waiter.claim_slot_by_slot().await,
        }
    };
    let end = claim.instrument(span).await;
    waiter.finish(end)
}

/// Claims the key for a call that has followed an equal call of this process. The equal call has left the key free, or is no
/// longer polled.
pub(crate) async fn ask(may_ask: MayAsk) -> Result<Held, Refusal> {
    ask_after(may_ask, None).await
}

async fn ask_after(may_ask: MayAsk, refused: Option<Bytes>) -> Result<Held, Refusal> {
    let MayAsk {
        lease,
        limits,
        record,
    } = may_ask;
    let span = lease.call().span.clone();
    let mut waiter = Waiter::new(lease, limits);
    waiter.refused_claims.extend(refused);
    let known = record.map_or(KnownAnswer::Nothing, KnownAnswer::Record);
    let claim = waiter.contend(None, known);
    let end = claim.instrument(span).await;
    Ok(redeem::redeem(waiter.finish(end)?).await?)
}

/// Claims the key for a call whose first claim did not succeed at once.
pub(crate) async fn contend(
    lease: Arc<Lease>,
    first_sent: Option<Instant>,
    answer: Result<Claim, StoreError>,
) -> Result<Held, Refusal> {
    let span = lease.call().span.clone();
    let began = first_sent.unwrap_or_else(Instant::now);
    let limits = WaitLimits::new(lease.call(), began);
    let mut waiter = Waiter::new(lease, limits);
    let claim = waiter.contend(first_sent, KnownAnswer::Answer(answer));
    let end = claim.instrument(span).await;
    Ok(redeem::redeem(waiter.finish(end)?).await?)
}

/// Refuses a call that does not wait, because another record has its key. Returns the answer to its claim if that is not enough to
/// refuse the call.
pub(crate) fn refuse_now(
    lease: &Arc<Lease>,
    answer: Result<Claim, StoreError>,
) -> Result<Refusal, Result<Claim, StoreError>> {
    let record = match answer {
        Ok(Claim::Taken(record)) if lease.call().policy.longest_wait().is_none() => record,
        answer => return Err(answer),
    };
    let record = Arc::new(SeenRecord::new(lease.key(), record));
    if expiry::is_unclear(lease, &record) {
        return Err(Ok(Claim::Taken(record.bytes().clone())));
    }
    let refusal = Refusal::from_record(lease, &record, false);
    lease.leave(Some(record));
    refusal.emit(lease.call());
    Ok(refusal)
}

/// The store's answer that a call knows before it claims.
enum KnownAnswer {
    Nothing,
    /// The answer to its claim.
    Answer(Result<Claim, StoreError>),
    /// The record that was stored under the key a moment ago.
    Record(Arc<SeenRecord>),
}

/// What the answer to a claim means.
enum Verdict {
    /// The call may run its body.
    Won(Guard),
    /// This record of another call has the key.
    Taken(TakenKey),
    /// The store does not answer, and this record had the key before, or is an outcome that the store has not taken.
    StillTaken(TakenKey),
}

impl Waiter {
    /// Claims one slot after another.
    async fn claim_slot_by_slot(&mut self) -> Result<Held, Refusal> {
        let slot = permit::any_slot(self.lease.call());
        let lease = Arc::clone(&self.lease).with_slot(slot);
        if !self.refused_claims.is_empty() {
            // Not the first attempt: it gets all the remaining time.
            self.lease = lease;
            return self.contend(None, KnownAnswer::Nothing).await;
        }
        let mut claim = ClaimGuard::of_waiter(&lease, None);
        let answer = StoreAttempt::first(claim.send(), lease.call().shared.deadline()).await;
        let first_sent = claim.defuse();
        drop(claim);
        self.lease = lease;
        self.contend(first_sent, KnownAnswer::Answer(answer)).await
    }

    /// Claims until this call has the key, or another call has it and no time to wait remains.
    async fn contend(
        &mut self,
        mut first_sent: Option<Instant>,
        mut known: KnownAnswer,
    ) -> Result<Held, Refusal> {
        loop {
            let lease = Arc::clone(&self.lease);
            let mut claim = ClaimGuard::of_waiter(&lease, first_sent.take());
            if matches!(known, KnownAnswer::Nothing)
                && let Some(outcome) = unrecorded::of_other(&self.lease)
                && let Some(refusal) = self.refusal_by_outcome(&outcome)
            {
                return Err(refusal);
            }
            let answer = self.resolve(&mut claim, &mut known).await;
            let Some(answer) = self.remove_stray(answer).await else {
                claim.defuse();
                drop(claim);
                self.lease = lease.with_new_owner();
                continue;
            };
            let asked_until = Instant::now();
            let verdict = self.judge(&mut claim, answer, asked_until)?;
            let (taken, is_answer) = match verdict {
                Verdict::Won(guard) => {
                    drop(claim);
                    return Ok(Held::new(lease, guard));
                }
                Verdict::StillTaken(taken) => (taken, false),
                Verdict::Taken(taken) => match self.next_slot(taken).await {
                    Ok(slot) => {
                        claim.defuse();
                        drop(claim);
                        self.lease = lease.with_slot(slot);
                        continue;
                    }
                    Err(taken) => {
                        self.last_holder = taken.holder(asked_until);
                        (taken, true)
                    }
                },
            };
            let pause = self.pause(&lease, taken, asked_until, is_answer);
            let changed = pause.await?;
            first_sent = claim.defuse();
            drop(claim);
            if first_sent.is_none() {
                // The claim was answered, so the next claim needs a new owner.
                let slot = changed.unwrap_or_else(|| permit::any_slot(lease.call()));
                self.lease = lease.with_slot(slot);
            }
        }
    }

    /// The slot to claim after a slot that is taken. If there is none, the call is refused or waits.
    async fn next_slot(&mut self, taken: TakenKey) -> Result<u8, TakenKey> {
        let Some(mut round) = self.permit_round.take() else {
            return Err(taken);
        };
        let backoff = self.backoff();
        let next = round.next(&self.lease, &self.refused_claims, &backoff, taken);
        let next = next.await;
        self.permit_round = Some(round);
        next
    }

    /// What the answer to a claim means. An error ends the call.
    fn judge(
        &self,
        claim: &mut ClaimGuard<'_>,
        answer: Result<Guard, NotWon>,
        asked_until: Instant,
    ) -> Result<Verdict, Refusal> {
        match answer {
            Ok(guard) => Ok(Verdict::Won(guard)),
            Err(NotWon::Refused(error)) => Err(error.into()),
            Err(NotWon::Taken(record)) => {
                let refusal = self.refusal(&record, false);
                claim.note_taken(&refusal);
                stuck::report(&self.lease, &record, &refusal);
                Ok(Verdict::Taken(TakenKey { record, refusal }))
            }
            Err(NotWon::Known(record)) => {
                let refusal = self.refusal(&record, false);
                Ok(Verdict::StillTaken(TakenKey { record, refusal }))
            }
            Err(NotWon::TooLate(late)) => {
                if let Some(refusal) = self.refusal_by_other() {
                    return Err(refusal);
                }
                match claim.decide_without_store(late) {
                    Ok(guard) => Ok(Verdict::Won(guard)),
                    // The store answers, so followers must ask it themselves.
                    Err(error) => {
                        self.lease.leave(None);
                        Err(error.into())
                    }
                }
            }
            Err(NotWon::Unavailable(failure)) => {
                self.judge_unavailable(claim, failure, asked_until)
            }
        }
    }

    /// Does the same as [`judge`](Self::judge), if the store does not answer. A known holder of the key takes precedence over
    /// the failure.
    fn judge_unavailable(
        &self,
        claim: &mut ClaimGuard<'_>,
        failure: StoreError,
        asked_until: Instant,
    ) -> Result<Verdict, Refusal> {
        if let Some(refusal) = self.refusal_by_other() {
            return Err(refusal);
        }
        match &self.last_holder {
            Some((record, until)) if asked_until < *until => Ok(Verdict::StillTaken(TakenKey {
                record: Arc::clone(record),
                refusal: self.refusal(record, false),
            })),
            // The lease of the last known holder has expired, so no holder is known.
            _ => {
                if let Some(place) = &self.place {
                    place.end_line();
                }
                match claim.decide_without_store(failure) {
                    Ok(guard) => Ok(Verdict::Won(guard)),
                    Err(error) => {
                        self.lease.leave_unavailable();
                        Err(error.into())
                    }
                }
            }
        }
    }

    /// Returns the answer, unless an earlier claim of this call has the key. No body runs under that claim, so it is removed.
    /// `None`: the call must claim again.
    async fn remove_stray(
        &mut self,
        answer: Result<Guard, NotWon>,
    ) -> Option<Result<Guard, NotWon>> {
        let Err(NotWon::Taken(record)) = &answer else {
            return Some(answer);
        };
        let is_stray = self.refused_claims.contains(record.bytes());
        self.refused_claims.push(self.lease.record().clone());
        if !is_stray {
            return Some(answer);
        }
        let removal = Box::pin(fence::withdraw(&self.lease, record.bytes()));
        match self.backoff().attempt(removal).await {
            Ok(_) => None,
            // "Taken" would be wrong, because this call itself has the key.
            Err(failure) => Some(Err(NotWon::Unavailable(failure))),
        }
    }

    async fn resolve(
        &self,
        claim: &mut ClaimGuard<'_>,
        known: &mut KnownAnswer,
    ) -> Result<Guard, NotWon> {
        match std::mem::replace(known, KnownAnswer::Nothing) {
            KnownAnswer::Record(record) => Err(NotWon::Taken(record)),
            KnownAnswer::Answer(answer) => {
                let limit = self.lease.call().shared.deadline();
                let backoff = Backoff::until(self.limits.ask_until, limit);
                claim.resolve(answer, backoff).await
            }
            KnownAnswer::Nothing => {
                let backoff = self.backoff();
                let answer = claim.send_announced(&backoff).await;
                claim.resolve(answer, backoff).await
            }
        }
    }

    /// The refusal by the outcome of another call of this process, which the store has not taken. The claim of that call may have expired.
    fn refusal_by_outcome(&self, outcome: &Arc<SeenRecord>) -> Option<Refusal> {
        let refusal = self.refusal(outcome, false);
        self.wait_limit(&refusal).is_none().then_some(refusal)
    }

    /// The refusal, if another call of this process has got the key in the meantime.
    fn refusal_by_other(&self) -> Option<Refusal> {
        let other = self.lease.find_other()?;
        let seen = other.in_flight().snapshot();
        let has_key = match seen.phase {
            Phase::Unrecorded(outcome) if outcome.is_alive(Instant::now()) => {
                return self.refusal_by_outcome(&outcome);
            }
            Phase::Unrecorded(_) => false,
            phase => phase.has_key(),
        };
        (has_key && seen.good_until > Instant::now())
            .then(|| self.refusal(&other.shown_record(), true))
    }
}
