//! How a claim ends in the store, and who waits for it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::drain::Piece;
use crate::lease::Lease;
use crate::store::{Claim, StoreError, StoreErrorKind, Swap};
use crate::tries::{Sending, Tries, Try};

/// What the end of a call sends.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// The claim becomes this done record, for `ttl`.
    Complete(Bytes),
    /// The claim goes away.
    Remove,
    /// The claim goes away if it was put at all; its body never ran.
    Withdraw,
    /// The claim stays until then, whatever its last renewal said.
    Hold(Instant),
}

/// Settles with the caller waiting, at most for the handle's deadline. Dropped, it goes on without.
pub(crate) fn attended(lease: Arc<Lease>, ending: Ending) -> impl Future<Output = ()> + Send {
    let mut left = HandOver::of(lease, ending);
    async move {
        let settled = match &left.0 {
            Some((lease, ending)) => {
                let deadline = lease.idempotency.deadline();
                match Try::first(ending.send(lease), deadline).await {
                    Ok(Swap::Done) => true,
                    // Seldom needed, so its state is not part of every caller's.
                    answer => {
                        lease.keep_until_settled();
                        let tries = Tries::after_the_first(deadline);
                        Box::pin(settled(lease, ending, tries, answer)).await
                    }
                }
            }
            None => true,
        };
        if settled && let Some((lease, _)) = left.0.take() {
            lease.end();
        }
    }
}

/// Settles without a caller.
pub(crate) fn hand_over(lease: Arc<Lease>, ending: Ending) {
    drop(HandOver::of(lease, ending));
}

/// What is not settled yet; given to the keeper when dropped.
struct HandOver(Option<(Arc<Lease>, Ending)>);

impl HandOver {
    fn of(lease: Arc<Lease>, ending: Ending) -> Self {
        if let Ending::Hold(until) = ending {
            lease.hold_until(until);
        }
        Self(Some((lease, ending)))
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        let Some((lease, ending)) = self.0.take() else {
            return;
        };
        let unattended = lease.idempotency.unattended();
        if matches!(ending, Ending::Withdraw) && unattended.count() >= MOST_WITHDRAWN {
            return unsettled(&lease, &ending, "too many others are waiting for the store");
        }
        let left = Left {
            piece: Some(unattended.begin()),
            lease,
            ending,
        };
        if let Some(keeper) = left.lease.keeper() {
            left.lease.keep_until_settled();
            keeper.run(left.settle());
        }
    }
}

/// Work that nobody waits for. Dropped before its end, as by a panic of the store, it says so.
struct Left {
    lease: Arc<Lease>,
    ending: Ending,
    piece: Option<Piece>,
}

impl Left {
    async fn settle(mut self) {
        let limit = self.lease.idempotency.deadline();
        let mut until = self.until(limit);
        loop {
            let tries = Tries::until(until, limit);
            let answer = tries.once(self.ending.send(&self.lease)).await;
            if settled(&self.lease, &self.ending, tries, answer).await {
                break;
            }
            let renewed = self.lease.good_until();
            if renewed <= until {
                unsettled(
                    &self.lease,
                    &self.ending,
                    "the store did not answer in time",
                );
                break;
            }
            until = renewed;
        }
        self.piece = None;
    }

    /// When it is not worth trying any more. A success is recorded also after its lease, as long as
    /// nothing else stands there: the next call would do its work again.
    fn until(&self, limit: Duration) -> Instant {
        let at_least = match self.ending {
            Ending::Complete(_) => self.lease.times.ttl.min(LONGEST_COMPLETION),
            _ => limit,
        };
        self.lease.good_until().max(Instant::now() + at_least)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.lease.end();
        if self.piece.is_some() {
            unsettled(
                &self.lease,
                &self.ending,
                "it was dropped before it was sent",
            );
        }
    }
}

impl Ending {
    fn send<'a>(&'a self, lease: &'a Lease) -> Sending<'a, Swap> {
        let store = lease.idempotency.store();
        let (key, claim) = (&lease.key, &lease.record);
        match self {
            Self::Remove | Self::Withdraw => store.remove(key, claim),
            Self::Complete(done) => store.replace(key, claim, done, lease.times.ttl),
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
}

/// Tries until an answer is conclusive. Whether the end stands in the store, or never will.
async fn settled(
    lease: &Lease,
    ending: &Ending,
    mut tries: Tries,
    mut answer: Result<Swap, StoreError>,
) -> bool {
    loop {
        if let Ending::Complete(done) = ending {
            answer = complete_otherwise(lease, done, &tries, answer).await;
        }
        match (answer, ending) {
            (Ok(Swap::Done), _) => return true,
            (Ok(Swap::Absent), Ending::Remove | Ending::Withdraw | Ending::Hold(_))
            | (Ok(Swap::Other(_)), Ending::Withdraw | Ending::Hold(_)) => {
                tracing::debug!(
                    target: "idempotence",
                    endpoint = %lease.site.endpoint,
                    key = ?lease.site.fingerprint,
                    "the claim is not there any more"
                );
                return true;
            }
            (Ok(Swap::Absent), _) => {
                unsettled(lease, ending, "nothing stands under its key");
                return true;
            }
            (Ok(Swap::Other(_)), _) => {
                unsettled(lease, ending, "another record stands under its key");
                return true;
            }
            (Err(error), _) if error.kind() == StoreErrorKind::Misconfigured => {
                unsettled(lease, ending, "the store is not set up for it");
                return true;
            }
            (Err(_), _) if !tries.again().await => return false,
            (Err(_), _) => answer = tries.once(ending.send(lease)).await,
        }
    }
}

/// What is left when the done record could not take the place of the claim.
async fn complete_otherwise(
    lease: &Lease,
    done: &Bytes,
    tries: &Tries,
    answer: Result<Swap, StoreError>,
) -> Result<Swap, StoreError> {
    let store = lease.idempotency.store();
    let (key, claim, ttl) = (&lease.key, &lease.record, lease.times.ttl);
    match answer {
        Ok(Swap::Absent) => match tries.once(store.claim(key, done, ttl)).await? {
            Claim::Claimed => Ok(Swap::Done),
            Claim::Taken(other) => Ok(Swap::Other(other)),
        },
        // The claim itself can still hold the key for as long as the result would have.
        Err(error) if error.kind() == StoreErrorKind::Full => {
            lease.hold_until(Instant::now() + ttl);
            let held = tries.once(store.replace(key, claim, claim, ttl)).await?;
            if held == Swap::Done {
                tracing::warn!(
                    target: "idempotence",
                    endpoint = %lease.site.endpoint,
                    key = ?lease.site.fingerprint,
                    "the store has no room for the done record; its claim stays for the whole ttl"
                );
            }
            Ok(held)
        }
        answer => answer,
    }
}

fn unsettled(lease: &Lease, ending: &Ending, why: &'static str) {
    if matches!(ending, Ending::Withdraw) {
        tracing::warn!(
            target: "idempotence",
            endpoint = %lease.site.endpoint,
            key = ?lease.site.fingerprint,
            "a claim that was never answered may hold its key until its lease ends: {why}"
        );
    } else {
        tracing::error!(
            target: "idempotence",
            endpoint = %lease.site.endpoint,
            key = ?lease.site.fingerprint,
            "the end of a call is not recorded: {why}"
        );
    }
}

/// How many claims wait to be withdrawn before no more are taken: a store that is away for long
/// must not fill the memory of those who ask it.
const MOST_WITHDRAWN: usize = 10_000;
const LONGEST_COMPLETION: Duration = Duration::from_hours(1);
