//! The end of a claim with a fence.
//!
//! The record of a fence says whether the last claim has ended, and so whether the next claim takes over from a call that died.
//!
//! | the call | its fence |
//! | --- | --- |
//! | succeeds, or fails with a stored result | ended; the next claim has attempt 1 |
//! | fails | ended; the next claim has the next attempt |
//! | panics, is dropped, loses its lease, or does not know its outcome | stays open, unless the body then succeeds |
//! | is refused after its claim, before its body | ended, and its attempt does not count; stays open if it took over |
//!
//! If the end of the call frees its key, the fence is ended first: the next claim may come at once, and must not take over from a
//! call that has ended. If the key stays taken, the fence is ended afterwards: a process that dies between the two may have done
//! its work without a record of it, so the next claim must take over.
//!
//! An end that the store does not accept must not keep the key taken. If the store is full or does not allow the command, the key is
//! freed at once. After any other failure the next try frees the key first. Until the fence is ended, the next claim takes over. If a
//! later claim has the key, nothing is written.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::time::Instant;

use crate::mutation::mutation;
use crate::policy::Release;
use crate::protocol::context::CallContext;
use crate::protocol::ending::{Ending, SettleOutcome};
use crate::protocol::lease::Lease;
use crate::protocol::retry::StoreFuture;
use crate::protocol::state::BodyEnd;
use crate::record::fence::{FenceLine, FenceState};
use crate::record::kept::Kept;
use crate::result::body_outcome::BodyOutcome;
use crate::store::fencing::{fence_ttl, is_permanent};
use crate::store::{Fence, Key, StoreError, Swap};

/// Notes that the body has returned, before `ending` is sent. If the end of the call sends nothing else, returns the end of the
/// fence.
pub(crate) fn note_end(
    lease: &Lease,
    outcome: &BodyOutcome,
    ending: Option<Ending>,
) -> Option<Ending> {
    if !lease.call().policy.fence || matches!(outcome.kept, Kept::Unknown) {
        return ending;
    }
    let mut state = lease.in_flight().state();
    let stays = outcome.success || matches!(outcome.kept, Kept::Result(_));
    state.set_body_end(if stays {
        BodyEnd::Success
    } else {
        BodyEnd::Failure
    });
    if ending.is_none() && !state.is_lost() {
        if lease.call().policy.release == Release::Never {
            // A renewal during this write would extend the record.
            let until = state.since() + lease.call().times.expiry;
            state.set_hold_until(until);
        }
        return Some(Ending::EndFence(None));
    }
    ending
}

/// Whether the fence is ended before `ending` is sent.
pub(crate) fn ends_before(lease: &Lease, ending: &Ending) -> bool {
    lease.call().policy.fence
        && match ending {
            Ending::Withdraw => true,
            Ending::Complete(_) | Ending::Tombstone(_) | Ending::EndFence(_) => false,
            Ending::SetExpiry(until) if *until > Instant::now() => false,
            // An expiry in the past removes the record. A body that was dropped leaves its fence open.
            Ending::Remove | Ending::SetExpiry(_) => lease.in_flight().state().body_end().is_some(),
        }
}

/// The end of the fence of a call after `ending`, whose outcome is `settled`; `None` if the fence has no end, or has ended.
pub(crate) fn next_ending(
    lease: &Lease,
    ending: &Ending,
    settled: SettleOutcome,
) -> Option<Ending> {
    if !lease.call().policy.fence || settled == SettleOutcome::Open {
        return None;
    }
    match ending {
        Ending::Complete(_) | Ending::Tombstone(_) | Ending::SetExpiry(_) => {
            lease.in_flight().state().body_end()?;
            Some(Ending::EndFence(ending.stored_record(settled).cloned()))
        }
        Ending::Remove | Ending::Withdraw | Ending::EndFence(_) => None,
    }
}

/// Writes that the claim of `lease` has ended, unless a later claim has the key. Costs 1 round trip, or 2 if the fence of the
/// claim is not known because the call got no answer.
pub(crate) async fn write_end(lease: &Lease) -> Result<Swap, StoreError> {
    OpenFence::new(lease).end().await.map(|_| Swap::Done)
}

/// Ends the fence of the claim of `lease`, and then frees its key by `remove`. From the second try on, frees the key first.
pub(crate) async fn end_and_remove<'a>(
    lease: &'a Lease,
    remove: impl FnOnce() -> StoreFuture<'a, Swap> + Send,
) -> Result<Swap, StoreError> {
    let open = OpenFence::new(lease);
    if lease
        .claim()
        .has_sent_fence_end
        .swap(true, Ordering::Relaxed)
    {
        open.remove_and_end(remove).await
    } else {
        open.end_and_remove(remove).await
    }
}

/// Does the same as [`end_and_remove`] for an earlier claim of the call of `lease`, whose record is `claim`. No body ran under it.
pub(crate) async fn withdraw(lease: &Lease, claim: &Bytes) -> Result<Swap, StoreError> {
    let store = lease.call().shared.store();
    let remove = || store.remove(lease.key(), claim);
    if !lease.call().policy.fence {
        return remove().await;
    }
    let open = OpenFence {
        call: lease.call(),
        key: lease.key(),
        claim,
        fence: None,
        body_end: None,
    };
    open.end_and_remove(remove).await
}

/// A claim whose fence may be open.
struct OpenFence<'a> {
    call: &'a CallContext,
    key: &'a Key,
    claim: &'a Bytes,
    /// `None` if it is not known.
    fence: Option<Fence>,
    /// `None` if the body never ran.
    body_end: Option<BodyEnd>,
}

impl<'a> OpenFence<'a> {
    fn new(lease: &'a Lease) -> Self {
        Self {
            call: lease.call(),
            key: lease.key(),
            claim: lease.record(),
            fence: lease.claim().fence.get().copied(),
            body_end: lease.in_flight().state().body_end(),
        }
    }

    async fn end_and_remove<'s>(
        &self,
        remove: impl FnOnce() -> StoreFuture<'s, Swap> + Send,
    ) -> Result<Swap, StoreError> {
        if mutation!(FreesKeyBeforeFence) {
            return self.remove_and_end(remove).await;
        }
        let is_ended = match self.end().await {
            Err(error) if is_permanent(&error) => true,
            is_ended => is_ended?,
        };
        let removal = remove().await?;
        if removal == Swap::Done && !is_ended {
            // The claim arrived after the fence was read.
            self.end().await?;
        }
        Ok(removal)
    }

    /// If the fence cannot be ended, it stays open, which is safe.
    async fn remove_and_end<'s>(
        &self,
        remove: impl FnOnce() -> StoreFuture<'s, Swap> + Send,
    ) -> Result<Swap, StoreError> {
        let removal = remove().await?;
        let _ = self.end().await;
        Ok(removal)
    }

    /// Ends the fence, unless a later claim has the key. Returns whether the claim has a fence.
    async fn end(&self) -> Result<bool, StoreError> {
        let (store, key) = (
            self.call.shared.store(),
            self.call.shared.fence_key(self.key),
        );
        let (fence, stored) = match self.fence {
            Some(fence) => (fence, fence.open(self.claim)),
            None => match store.get(&key).await? {
                Some(entry) if let Some(fence) = own(&entry.value, self.claim) => {
                    (fence, entry.value)
                }
                _ => return Ok(false),
            },
        };
        let ttl = fence_ttl(self.call.times.expiry.max(self.call.policy.ttl));
        let ended = self.ended(fence).write();
        if let Swap::Other(later) = store.replace(&key, &stored, &ended, ttl).await?
            && let Some(fence) = own(&later, self.claim)
        {
            // A call without a claim has drawn a number in the meantime.
            let ended = self.ended(fence).write();
            store.replace(&key, &later, &ended, ttl).await?;
        }
        Ok(true)
    }

    /// The line after the end of the claim.
    fn ended(&self, fence: Fence) -> FenceLine<'static> {
        let attempt = match self.body_end {
            Some(BodyEnd::Success) => 0,
            Some(BodyEnd::Failure) => fence.attempt,
            None => fence.attempt.saturating_sub(1),
        };
        let state = match self.body_end {
            // The call that died is still the last call that ran.
            None if fence.took_over => FenceState::Takeover(b""),
            _ => FenceState::Ended,
        };
        FenceLine {
            fence: fence.number,
            attempt,
            state,
        }
    }
}

/// The fence in the record `stored`, if it is the open fence of this claim.
fn own(stored: &[u8], claim: &[u8]) -> Option<Fence> {
    let line = FenceLine::read(stored).ok()?;
    (line.open_claim() == Some(claim)).then(|| line.into())
}
