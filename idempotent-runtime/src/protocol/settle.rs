//! Settling: storing the end of a call, while its caller waits or in the background.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::observe::EventKind;
use crate::policy::deadline::first_try;
use crate::protocol::background::{self, Job, NOT_CONFIRMED};
use crate::protocol::ending::{Ending, SettleOutcome};
use crate::protocol::lease::Lease;
use crate::protocol::retry::{Backoff, StoreAttempt};
use crate::protocol::seen::SeenRecord;
use crate::protocol::shared::Shared;
use crate::protocol::{fence, kept_claim, steps_end, unrecorded};
use crate::store::{Claim, StoreError, StoreErrorKind, Swap, fencing};

/// Settles while the caller waits, for at most the handle's deadline. If the future is dropped, settling continues in the
/// background. Without an `end` it is ready at once: this is cheaper than a second future around this future. With
/// `settle = "background"` it is also ready at once, unless there is no runtime for the background.
pub(crate) fn settle(
    end: Option<(Arc<Lease>, Ending)>,
) -> impl Future<Output = SettleOutcome> + Send {
    let mut unsettled = Unsettled::new(end);
    async move {
        let settled = match &mut unsettled.end {
            Some((lease, ending)) => {
                let deadline = lease.call().shared.deadline();
                // Unlike a `match`, this does not store the immediate answer in the future while the other answer is awaited.
                let answer = if let Some(answer) = ending.send_now(lease) {
                    answer
                } else if lease.settles_in_background() {
                    // The drop of `unsettled` starts the background job.
                    return SettleOutcome::Open;
                } else {
                    unsettled.was_sent = true;
                    StoreAttempt::first(ending.send(lease), deadline).await
                };
                unsettled.was_sent = true;
                match answer {
                    Ok(Swap::Done) => SettleOutcome::Stored,
                    // Boxed, because it is seldom needed: its state is then not part of every caller's future.
                    answer => {
                        lease.renew_until_settled();
                        let backoff = Backoff::after_first_attempt(deadline);
                        let is_resend = false;
                        Box::pin(resolve(lease, ending, backoff, answer, is_resend)).await
                    }
                }
            }
            None => return SettleOutcome::Closed,
        };
        if let Some((lease, ending)) = &unsettled.end
            && let Some(fence_end) = fence::next_ending(lease, ending, settled)
        {
            // Boxed, because few calls have a fence.
            Box::pin(unsettled.end_fence(fence_end)).await;
            return settled;
        }
        if settled == SettleOutcome::Open {
            // The drop of `unsettled` starts the background job.
            unsettled.leave();
        } else if let Some((lease, ending)) = unsettled.end.take() {
            finish(&lease, ending.stored_record(settled));
        }
        settled
    }
}

/// Settles in the background.
pub(crate) fn settle_in_background(lease: Arc<Lease>, ending: Ending) {
    drop(Unsettled::new(Some((lease, ending))));
}

/// The end of a call that is not settled yet. Dropping it starts a background job that settles it.
struct Unsettled {
    end: Option<(Arc<Lease>, Ending)>,
    /// The end was sent at least once, so the store may have applied it.
    was_sent: bool,
    /// `unconfirmed` was emitted, if the end needs it.
    is_reported: bool,
}

impl Unsettled {
    fn new(end: Option<(Arc<Lease>, Ending)>) -> Self {
        match &end {
            Some((lease, Ending::SetExpiry(until))) => lease.hold_until(*until),
            Some((lease, Ending::Withdraw)) => {
                let due = Instant::now() + first_try(lease.call().shared.deadline());
                lease.in_flight().note_withdrawing(due);
            }
            _ => {}
        }
        Self {
            end,
            was_sent: false,
            is_reported: false,
        }
    }
}

impl Unsettled {
    /// The caller gets its answer now.
    fn leave(&mut self) {
        if let Some((lease, ending)) = &self.end {
            unrecorded::show_or_leave(lease, ending);
            report_unconfirmed(lease, ending);
            self.is_reported = true;
        }
    }

    /// Ends the fence of a call that is settled.
    async fn end_fence(mut self, fence_end: Ending) {
        if let Some((lease, ending)) = &mut self.end {
            *ending = fence_end;
            let deadline = lease.call().shared.deadline();
            let answer = StoreAttempt::first(ending.send(lease), deadline).await;
            let backoff = Backoff::after_first_attempt(deadline);
            let settled = resolve(lease, ending, backoff, answer, false).await;
            let record = ending.stored_record(settled);
            if settled == SettleOutcome::Open {
                // The drop of `self` starts the background job.
                lease.leave(record.map(|record| seen(lease, record)));
            } else {
                finish(lease, record);
                self.end = None;
            }
        }
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let Some((lease, ending)) = self.end.take() else {
            return;
        };
        let withdraws = matches!(ending, Ending::Withdraw);
        let job = SettleJob {
            lease,
            ending,
            was_sent: self.was_sent,
            is_reported: self.is_reported,
        };
        let scheduler = job.lease.scheduler();
        job.lease.renew_until_settled();
        if withdraws {
            background::start_cleanup(job, scheduler);
        } else {
            background::start(job, scheduler);
        }
    }
}

/// Settles a call in the background.
struct SettleJob {
    lease: Arc<Lease>,
    ending: Ending,
    /// As in [`Unsettled`]: the next send is a resend.
    was_sent: bool,
    /// As in [`Unsettled`].
    is_reported: bool,
}

impl Job for SettleJob {
    fn shared(&self) -> &Arc<Shared> {
        &self.lease.call().shared
    }

    async fn run(&mut self) -> Result<(), &'static str> {
        let limit = self.lease.call().shared.deadline();
        let mut until = self.give_up_instant(limit);
        loop {
            let completes = matches!(self.ending, Ending::Complete(_));
            // The first round ends when a caller would wait no longer, because then the missing record is reported.
            let round_ends = if completes && !self.is_reported {
                until.min(Instant::now() + limit)
            } else {
                until
            };
            let backoff = Backoff::until(round_ends, limit);
            let answer = backoff.attempt(self.ending.send_in_turn(&self.lease)).await;
            if answer.is_err() {
                // Followers wait for the first answer, because the store still shows them the claim, but for no silent store.
                unrecorded::show_or_leave(&self.lease, &self.ending);
            }
            let (lease, ending) = (&self.lease, &mut self.ending);
            let settled = resolve(lease, ending, backoff, answer, self.was_sent).await;
            let was_replaced = completes && matches!(self.ending, Ending::Tombstone(_));
            match settled {
                SettleOutcome::Open if completes && !self.is_reported => {
                    // The first answer may be that the claim has gone, and its followers still wait.
                    unrecorded::show_or_leave(&self.lease, &self.ending);
                    report_unconfirmed(&self.lease, &self.ending);
                    self.is_reported = true;
                    self.was_sent = true;
                    continue;
                }
                // The first round ends early if the store is misconfigured, and a round whose result finds no room. The next round retries.
                SettleOutcome::Open if !self.was_sent || was_replaced => {
                    self.was_sent = true;
                    continue;
                }
                SettleOutcome::Open => {}
                settled => {
                    // A tombstone was reported as a result that is not kept.
                    if self.is_reported && completes && settled == SettleOutcome::Stored {
                        let call = self.lease.call();
                        call.emit(EventKind::Confirmed, |event| event);
                    }
                    if self.begins_fence_end(settled) {
                        until = self.give_up_instant(limit);
                        continue;
                    }
                    finish(&self.lease, self.ending.stored_record(settled));
                    return Ok(());
                }
            }
            let renewed_until = self.lease.good_until();
            if renewed_until <= until {
                return Err(NOT_CONFIRMED);
            }
            until = renewed_until;
        }
    }

    fn on_end(&mut self, undone: Option<&'static str>) {
        self.lease.finish(None);
        if let Some(why) = undone {
            report_unsettled(&self.lease, &self.ending, why);
        }
    }
}

fn seen(lease: &Lease, record: &Bytes) -> Arc<SeenRecord> {
    Arc::new(SeenRecord::new(lease.key(), record.clone()))
}

/// Finishes the lease of a call, and its steps.
fn finish(lease: &Lease, record: Option<&Bytes>) {
    lease.finish(record);
    steps_end::remove_after(lease, record);
}

impl SettleJob {
    /// Takes the end of the fence as the next ending, if the fence must be ended.
    fn begins_fence_end(&mut self, settled: SettleOutcome) -> bool {
        let Some(fence_end) = fence::next_ending(&self.lease, &self.ending, settled) else {
            return false;
        };
        // Followers need the stored outcome, and not the end of the fence.
        if let Ending::Complete(_) | Ending::Tombstone(_) = self.ending {
            let record = self.ending.stored_record(settled);
            self.lease
                .leave(record.map(|record| seen(&self.lease, record)));
        }
        self.ending = fence_end;
        self.was_sent = false;
        true
    }

    /// When to give up. A success is stored even after its lease, or the next call would repeat the work.
    fn give_up_instant(&self, limit: Duration) -> Instant {
        let at_least = match self.ending {
            Ending::Complete(_) | Ending::Tombstone(_) => {
                self.lease.call().policy.ttl.min(LONGEST_COMPLETION)
            }
            _ => limit,
        };
        self.lease.good_until().max(Instant::now() + at_least)
    }
}

/// Sends the end until an answer is conclusive or no time remains. `is_resend`: `answer` is not the answer to the first send.
async fn resolve(
    lease: &Arc<Lease>,
    ending: &mut Ending,
    mut backoff: Backoff,
    mut answer: Result<Swap, StoreError>,
    mut is_resend: bool,
) -> SettleOutcome {
    loop {
        if let Ending::Complete(done) = ending {
            match complete_with_fallback(lease, done, &backoff, answer).await {
                Fallback::Answer(other) => answer = other,
                // The background job sends the rest, because the store may have no room for long.
                Fallback::ClaimStays => {
                    *ending = Ending::Tombstone(kept_claim::tombstone(lease, done));
                    return SettleOutcome::Open;
                }
            }
        }
        match (answer, &*ending) {
            (Ok(Swap::Done), _) => return SettleOutcome::Stored,
            // The reply to the removal was lost, and another call may have claimed the key in the meantime.
            (Ok(Swap::Absent | Swap::Other(_)), Ending::Remove) if is_resend => {
                lease.call().emit(EventKind::AlreadyGone, |event| event);
                return SettleOutcome::Stored;
            }
            (Ok(swap), _) if ending.needs_nothing_after(&swap) => {
                lease.call().emit(EventKind::AlreadyGone, |event| event);
                return SettleOutcome::Closed;
            }
            (Ok(Swap::Absent), _) => {
                report_unsettled(lease, ending, "nothing is stored under its key");
                return SettleOutcome::Closed;
            }
            (Ok(Swap::Other(other)), ending) if !unrecorded::may_follow(lease, ending, &other) => {
                report_unsettled(lease, ending, "another record is stored under its key");
                return SettleOutcome::Closed;
            }
            // This ends the round, because a caller may wait for it. The background job sends the end again: the call that has the key may
            // fail, and permissions and passwords may be wrong only for a moment.
            (Ok(Swap::Other(_)), _) if !is_resend => return SettleOutcome::Open,
            (Err(error), _) if error.kind() == StoreErrorKind::Misconfigured && !is_resend => {
                return SettleOutcome::Open;
            }
            // A later send would change nothing. The next claim takes over, which is safe.
            (Err(error), Ending::EndFence(_)) if fencing::is_permanent(&error) => {
                return SettleOutcome::Closed;
            }
            // The store answers, so it can be asked more often.
            (Ok(Swap::Other(_)), _) => backoff.shorten(),
            (Err(_), _) => {}
        }
        unrecorded::note_settling(lease, ending, backoff.gives_up_at());
        if !backoff.pause().await {
            return SettleOutcome::Open;
        }
        unrecorded::enter(lease);
        is_resend = true;
        answer = backoff.attempt(ending.send_in_turn(lease)).await;
    }
}

/// The outcome of the other ways to record a success.
enum Fallback {
    /// The last answer of the store, which may be the given answer.
    Answer(Result<Swap, StoreError>),
    /// The claim has the key as long as the done record would have it.
    ClaimStays,
}

/// Tries other ways to record a success if the done record could not replace the claim.
async fn complete_with_fallback(
    lease: &Lease,
    done: &Bytes,
    backoff: &Backoff,
    answer: Result<Swap, StoreError>,
) -> Fallback {
    let store = lease.call().shared.store();
    let (key, claim, ttl) = (lease.key(), lease.record(), lease.end_ttl(done));
    Fallback::Answer(match answer {
        Ok(Swap::Absent) if unrecorded::may_store(lease) => {
            match backoff.attempt(store.claim(key, done, ttl)).await {
                Ok(Claim::Claimed) => Ok(Swap::Done),
                Ok(Claim::Taken(other)) => Ok(Swap::Other(other)),
                Err(error) => Err(error),
            }
        }
        Err(error) if error.kind() == StoreErrorKind::Full => {
            lease.hold_until(Instant::now() + ttl);
            let hold = store.replace(key, claim, claim, ttl);
            match backoff.attempt(hold).await {
                Ok(Swap::Done) => {
                    let why = "the store has no room for it, so the claim stays for the whole ttl";
                    lease
                        .call()
                        .emit(EventKind::NotKept, |event| event.because(why));
                    return Fallback::ClaimStays;
                }
                answer => answer,
            }
        }
        answer => answer,
    })
}

/// Reports an outcome that is not recorded yet. If the process is killed now, no other event follows.
fn report_unconfirmed(lease: &Lease, ending: &Ending) {
    if matches!(ending, Ending::Complete(_)) {
        lease.call().emit(EventKind::Unconfirmed, |event| event);
    }
}

fn report_unsettled(lease: &Lease, ending: &Ending, why: &'static str) {
    let kind = match ending {
        Ending::Withdraw => EventKind::NotWithdrawn,
        // After the fence the next call takes this call for dead, which is safe. A tombstone was reported as a result that is not kept.
        Ending::EndFence(_) | Ending::Tombstone(_) => return,
        _ => EventKind::Unrecorded,
    };
    lease.call().emit(kind, |event| event.because(why));
}

const LONGEST_COMPLETION: Duration = Duration::from_hours(1);
