//! The end of a claim with a fence.
//!
//! The record of a fence says whether the last claim has ended, and so whether the next claim takes over from a call that died.
//! It is written after the end of the call is stored: a process that dies between the two is reported as dead, although its
//! call has ended. The other order would hide a dead call.
//!
//! | the call | its fence |
//! | --- | --- |
//! | succeeds, or fails with a stored result | ended; the next claim has attempt 1 |
//! | fails | ended; the next claim has the next attempt |
//! | panics, is dropped, or loses its lease | stays open |
//! | is refused after its claim, before its body | ended, and its attempt does not count; stays open if it took over |
//!
//! If a later claim has the key, nothing is written.

use crate::policy::Release;
use crate::protocol::ending::Ending;
use crate::protocol::lease::Lease;
use crate::record::fence::FenceLine;
use crate::store::fencing::lasts;
use crate::store::{Fence, StoreError, Swap};

/// Notes that the body has returned, before `ending` is sent. With `stays` the next claim is a first attempt. If the end of the
/// call sends nothing else, returns the end of the fence.
pub(crate) fn note_end(lease: &Lease, stays: bool, ending: Option<Ending>) -> Option<Ending> {
    if !lease.call().policy.fence {
        return ending;
    }
    let mut state = lease.in_flight().state();
    let Some(fence) = state.fence() else {
        return ending;
    };
    state.set_attempts(if stays { 0 } else { fence.attempt });
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

/// The end of the fence of a call whose end is stored by `ending`; `None` if the fence has no end, or has ended.
pub(crate) fn next_ending(lease: &Lease, ending: &Ending) -> Option<Ending> {
    if !lease.call().policy.fence {
        return None;
    }
    let has_returned = lease.in_flight().state().attempts().is_some();
    let done = match ending {
        Ending::EndFence(_) => return None,
        Ending::Complete(done) => Some(done.clone()),
        Ending::Withdraw => return Some(Ending::EndFence(None)),
        Ending::Remove | Ending::SetExpiry(_) => None,
    };
    has_returned.then_some(Ending::EndFence(done))
}

/// Writes that the claim of `lease` has ended, unless a later claim has the key. Costs 1 round trip, or 2 if the fence of the
/// claim is not known because the call got no answer.
pub(crate) async fn write_end(lease: &Lease) -> Result<Swap, StoreError> {
    let (call, claim) = (lease.call(), lease.record());
    let (store, key) = (call.shared.store(), call.shared.fence_key(lease.key()));
    let (fence, attempts) = {
        let state = lease.in_flight().state();
        (state.fence(), state.attempts())
    };
    let (fence, stored) = match fence {
        Some(fence) => (fence, fence.open(claim)),
        None => match store.get(&key).await? {
            Some(entry) if let Some(fence) = own(&entry.value, claim) => (fence, entry.value),
            _ => return Ok(Swap::Done),
        },
    };
    let attempts = match attempts {
        Some(attempts) => attempts,
        // The body never ran, so the call that died is still the last that ran.
        None if fence.took_over => return Ok(Swap::Done),
        None => fence.attempt.saturating_sub(1),
    };
    let ended = FenceLine::ended(fence.number, attempts).write();
    let replace = store.replace(&key, &stored, &ended, lasts(call.times.ttl));
    replace.await.map(|_| Swap::Done)
}

/// The fence in the record `stored`, if it is the open fence of this claim.
fn own(stored: &[u8], claim: &[u8]) -> Option<Fence> {
    let line = FenceLine::read(stored).ok()?;
    (line.open_claim() == Some(claim)).then(|| line.into())
}
