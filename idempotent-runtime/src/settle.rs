//! How a claim ends in the store, and who waits for it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

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
    /// The claim ends after this long, sooner than its last renewal said.
    Shorten(Duration),
}

/// Settles with the caller waiting, at most for the handle's deadline. Dropped, it goes on without.
pub(crate) fn attended(lease: Arc<Lease>, ending: Ending) -> impl Future<Output = ()> + Send {
    let mut left = HandOver(Some((lease, ending)));
    async move {
        let settled = match &left.0 {
            Some((lease, ending)) => {
                let deadline = lease.idempotency.deadline();
                match Try::first(ending.send(lease), deadline).await {
                    Ok(Swap::Done) => true,
                    // Seldom needed, so its state is not part of every caller's.
                    answer => {
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

/// Settles without a caller, until the lease ends.
pub(crate) fn hand_over(lease: Arc<Lease>, ending: Ending) {
    drop(HandOver(Some((lease, ending))));
}

/// What is not settled yet; given to the keeper when dropped.
struct HandOver(Option<(Arc<Lease>, Ending)>);

impl Drop for HandOver {
    fn drop(&mut self) {
        let Some((lease, ending)) = self.0.take() else {
            return;
        };
        let Some(keeper) = lease.keeper() else {
            lease.end();
            return unrecorded(&lease, "there is no runtime to send it from");
        };
        lease.keep_until_settled();
        let piece = lease.idempotency.unattended().begin();
        keeper.run(async move {
            settle_until_the_lease_ends(&lease, &ending).await;
            lease.end();
            drop(piece);
        });
    }
}

async fn settle_until_the_lease_ends(lease: &Lease, ending: &Ending) {
    let limit = lease.idempotency.deadline();
    // A claim that never began has no lease: it is removed as long as a caller would wait.
    let mut until = lease.good_until().max(Instant::now() + limit);
    loop {
        let tries = Tries::until(until, limit);
        let answer = tries.once(ending.send(lease)).await;
        if settled(lease, ending, tries, answer).await {
            return;
        }
        let renewed = lease.good_until();
        if renewed <= until {
            return unrecorded(lease, "the store did not answer until its lease ended");
        }
        until = renewed;
    }
}

impl Ending {
    fn send<'a>(&'a self, lease: &'a Lease) -> Sending<'a, Swap> {
        let store = lease.idempotency.store();
        let (key, claim) = (&lease.key, &lease.record);
        match self {
            Self::Remove => store.remove(key, claim),
            Self::Shorten(left) => store.replace(key, claim, claim, *left),
            Self::Complete(done) => store.replace(key, claim, done, lease.times.ttl),
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
        match answer {
            Ok(Swap::Done) => return true,
            Ok(Swap::Absent) => {
                tracing::debug!(
                    target: "idempotence",
                    endpoint = %lease.site.endpoint,
                    key = ?lease.site.fingerprint,
                    "nothing stood under the key any more"
                );
                return true;
            }
            Ok(Swap::Other(_)) => {
                unrecorded(lease, "another record stands under its key");
                return true;
            }
            Err(error) if error.kind() == StoreErrorKind::Misconfigured => {
                unrecorded(lease, "the store is not set up for it");
                return true;
            }
            Err(_) if !tries.again().await => return false,
            Err(_) => answer = tries.once(ending.send(lease)).await,
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
            let extended = tries.once(store.replace(key, claim, claim, ttl)).await?;
            tracing::warn!(
                target: "idempotence",
                endpoint = %lease.site.endpoint,
                key = ?lease.site.fingerprint,
                "the store has no room for the done record; its claim stays for the whole ttl"
            );
            Ok(extended)
        }
        answer => answer,
    }
}

fn unrecorded(lease: &Lease, why: &'static str) {
    tracing::error!(
        target: "idempotence",
        endpoint = %lease.site.endpoint,
        key = ?lease.site.fingerprint,
        "the end of a call is not recorded: {why}"
    );
}
