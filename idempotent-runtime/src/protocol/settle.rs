//! How a claim ends in the store, and who waits for it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::observe::EventKind;
use crate::protocol::background;
use crate::protocol::background::{Job, NO_ANSWER};
use crate::protocol::ending::Ending;
use crate::protocol::lease::Lease;
use crate::protocol::retry::{Sending, Tries, Try};
use crate::protocol::shared::Shared;
use crate::store::{Claim, StoreError, StoreErrorKind, Swap};

/// Settles with the caller waiting, at most for the handle's deadline. Dropped, it goes on without.
pub(crate) fn attended(lease: Arc<Lease>, ending: Ending) -> impl Future<Output = ()> + Send {
    let mut left = HandOver::of(lease, ending);
    async move {
        left.sent = true;
        let settled = match &left.end {
            Some((lease, ending)) => {
                let deadline = lease.call.shared.deadline();
                match Try::first(ending.send(lease), deadline).await {
                    Ok(Swap::Done) => Settled::Stands,
                    // Seldom needed, so its state is not part of every caller's.
                    answer => {
                        lease.keep_until_settled();
                        let tries = Tries::after_the_first(deadline);
                        Box::pin(settled(lease, ending, tries, answer, false)).await
                    }
                }
            }
            None => Settled::Stands,
        };
        match (settled, &left.end) {
            // Its caller has an answer now: who asks from here on is for the store to answer.
            (Settled::NotYet, Some((lease, _))) => lease.leave(None),
            _ => {
                if let Some((lease, ending)) = left.end.take() {
                    lease.finish(ending.found(settled));
                }
            }
        }
    }
}

/// Whether the end of a call is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// It stands there.
    Stands,
    /// It never will, or something else took its place.
    Otherwise,
    /// It may yet be.
    NotYet,
}

/// Settles without a caller.
pub(crate) fn hand_over(lease: Arc<Lease>, ending: Ending) {
    drop(HandOver::of(lease, ending));
}

/// What is not settled yet; given to the keeper when dropped.
struct HandOver {
    end: Option<(Arc<Lease>, Ending)>,
    /// It was sent, so it may have been applied.
    sent: bool,
}

impl HandOver {
    fn of(lease: Arc<Lease>, ending: Ending) -> Self {
        if let Ending::Hold(until) = ending {
            lease.hold_until(until);
        }
        Self {
            end: Some((lease, ending)),
            sent: false,
        }
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        let Some((lease, ending)) = self.end.take() else {
            return;
        };
        let withdraws = matches!(ending, Ending::Withdraw);
        let left = Left {
            lease,
            ending,
            sent: self.sent,
        };
        let keeper = left.lease.keeper();
        left.lease.keep_until_settled();
        if withdraws {
            background::start_cleanup(left, keeper);
        } else {
            background::start(left, keeper);
        }
    }
}

/// The end of a call that nobody waits for.
struct Left {
    lease: Arc<Lease>,
    ending: Ending,
    /// It was sent before, so it may have been applied.
    sent: bool,
}

impl Job for Left {
    fn shared(&self) -> &Arc<Shared> {
        &self.lease.call.shared
    }

    async fn run(&mut self) -> Result<(), &'static str> {
        let limit = self.lease.call.shared.deadline();
        let mut until = self.until(limit);
        loop {
            let tries = Tries::until(until, limit);
            let answer = tries.once(self.ending.send(&self.lease)).await;
            if answer.is_err() {
                // Until the first answer the store would tell those who follow of a claim that is about to go;
                // but they are not to wait for a store that is away.
                self.lease.leave(None);
            }
            match settled(&self.lease, &self.ending, tries, answer, self.sent).await {
                Settled::NotYet if !self.sent => {
                    self.sent = true;
                    continue;
                }
                Settled::NotYet => {}
                settled => {
                    self.lease.finish(self.ending.found(settled));
                    return Ok(());
                }
            }
            let renewed = self.lease.good_until();
            if renewed <= until {
                return Err(NO_ANSWER);
            }
            until = renewed;
        }
    }

    fn end(&mut self, undone: Option<&'static str>) {
        self.lease.finish(None);
        if let Some(why) = undone {
            unsettled(&self.lease, &self.ending, why);
        }
    }
}

impl Left {
    /// When it is not worth trying any more. A success is recorded also after its lease, as long as
    /// nothing else stands there: the next call would do its work again.
    fn until(&self, limit: Duration) -> Instant {
        let at_least = match self.ending {
            Ending::Complete(_) => self.lease.call.times.ttl.min(LONGEST_COMPLETION),
            _ => limit,
        };
        self.lease.good_until().max(Instant::now() + at_least)
    }
}

impl Ending {
    fn send<'a>(&'a self, lease: &'a Lease) -> Sending<'a, Swap> {
        match &lease.call.token {
            // Before the key is free: who comes next with the token is to find it good.
            Some(token) if token.is_owed() => Box::pin(async {
                token.give_back().await?;
                self.send_alone(lease).await
            }),
            _ => self.send_alone(lease),
        }
    }

    /// Sends it without a token.
    fn send_alone<'a>(&'a self, lease: &'a Lease) -> Sending<'a, Swap> {
        let store = lease.call.shared.store();
        let (key, claim) = (lease.key(), &lease.record);
        // Only where calls wait is there anybody to be told.
        let tell = lease.call.policy.patience().is_some();
        match self {
            Self::Remove | Self::Withdraw if tell => store.remove_and_notify(key, claim),
            Self::Remove | Self::Withdraw => store.remove(key, claim),
            Self::Complete(done) if tell => {
                store.replace_and_notify(key, claim, done, lease.done_for())
            }
            Self::Complete(done) => store.replace(key, claim, done, lease.done_for()),
            Self::Hold(until) => {
                let left = until.duration_since(Instant::now());
                if left.is_zero() {
                    store.remove(key, claim)
                } else {
                    store.replace(key, claim, claim, left)
                }
            }
        }
    }

    /// The record that is in the store now, if that is known.
    fn found(&self, settled: Settled) -> Option<Bytes> {
        match self {
            Self::Complete(done) if settled == Settled::Stands => Some(done.clone()),
            _ => None,
        }
    }
}

/// Tries until an answer is conclusive. `sent_before` says that this is not the answer to the first send.
async fn settled(
    lease: &Lease,
    ending: &Ending,
    mut tries: Tries,
    mut answer: Result<Swap, StoreError>,
    mut sent_before: bool,
) -> Settled {
    loop {
        if let Ending::Complete(done) = ending {
            match complete_otherwise(lease, done, &tries, answer).await {
                Otherwise::Answer(other) => answer = other,
                Otherwise::Held => return Settled::Otherwise,
            }
        }
        match (answer, ending) {
            (Ok(Swap::Done), _) => return Settled::Stands,
            (Ok(Swap::Absent), Ending::Remove | Ending::Withdraw | Ending::Hold(_))
            | (Ok(Swap::Other(_)), Ending::Withdraw | Ending::Hold(_)) => {
                lease.call.tell(EventKind::AlreadyGone, |event| event);
                return Settled::Otherwise;
            }
            // A removal whose reply was lost, and somebody else's claim since.
            (Ok(Swap::Other(_)), Ending::Remove) if sent_before => {
                lease.call.tell(EventKind::AlreadyGone, |event| event);
                return Settled::Otherwise;
            }
            (Ok(Swap::Absent), _) => {
                unsettled(lease, ending, "nothing stands under its key");
                return Settled::Otherwise;
            }
            (Ok(Swap::Other(_)), _) => {
                unsettled(lease, ending, "another record stands under its key");
                return Settled::Otherwise;
            }
            // Permissions and passwords may be wrong for a moment, but not one that is worth a caller's time.
            (Err(error), _) if error.kind() == StoreErrorKind::Misconfigured && !sent_before => {
                return Settled::NotYet;
            }
            (Err(_), _) if !tries.again().await => return Settled::NotYet,
            (Err(_), _) => {
                sent_before = true;
                answer = tries.once(ending.send(lease)).await;
            }
        }
    }
}

/// What came of the other ways to record a success.
enum Otherwise {
    /// An answer as to the done record.
    Answer(Result<Swap, StoreError>),
    /// The claim holds the key for as long as the result would have.
    Held,
}

/// What is left when the done record could not take the place of the claim.
async fn complete_otherwise(
    lease: &Lease,
    done: &Bytes,
    tries: &Tries,
    answer: Result<Swap, StoreError>,
) -> Otherwise {
    let store = lease.call.shared.store();
    let (key, claim, lasts) = (lease.key(), &lease.record, lease.done_for());
    Otherwise::Answer(match answer {
        Ok(Swap::Absent) => match tries.once(store.claim(key, done, lasts)).await {
            Ok(Claim::Claimed) => Ok(Swap::Done),
            Ok(Claim::Taken(other)) => Ok(Swap::Other(other)),
            Err(error) => Err(error),
        },
        Err(error) if error.kind() == StoreErrorKind::Full => {
            lease.hold_until(Instant::now() + lasts);
            match tries.once(store.replace(key, claim, claim, lasts)).await {
                Ok(Swap::Done) => {
                    let why = "the store has no room for it, so the claim stays for the whole ttl";
                    lease
                        .call
                        .tell(EventKind::NotKept, |event| event.because(why));
                    return Otherwise::Held;
                }
                held => held,
            }
        }
        answer => answer,
    })
}

fn unsettled(lease: &Lease, ending: &Ending, why: &'static str) {
    let kind = match ending {
        Ending::Withdraw => EventKind::NotWithdrawn,
        _ => EventKind::Unrecorded,
    };
    lease.call.tell(kind, |event| event.because(why));
}

const LONGEST_COMPLETION: Duration = Duration::from_hours(1);
