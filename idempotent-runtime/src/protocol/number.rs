//! The number of a call with the option `fence` whose guard the setting `disabled` switches off.
//!
//! The call claims no key. But a resource that compares numbers refuses a call without a number, so the call draws the next number
//! of its key. It changes nothing else in the record of the number: the runs of claims are counted as before, and a claim that has
//! not ended stays open.

use tokio::time::Instant;

use crate::observe::EventKind;
use crate::protocol::lease::Lease;
use crate::protocol::retry::{Backoff, name_deadline};
use crate::record::fence::FenceLine;
use crate::store::fencing::{fence_ttl, microseconds, swap};
use crate::store::{Fence, StoreError, StoreErrorKind, Swap};

/// Draws the number. If the store does not answer within the deadline of the handle, the call has no number.
pub(crate) async fn draw(lease: &Lease) {
    let call = lease.call();
    match next(lease).await {
        Ok(number) => {
            lease.claim().fence.get_or_init(|| Fence {
                number,
                attempt: 0,
                took_over: false,
            });
        }
        Err(error) => {
            let error = name_deadline(error, call.shared.deadline());
            call.emit(EventKind::Unguarded, |event| event.caused_by(&error));
        }
    }
}

/// Costs two round trips, and two more for each other call that draws at the same time.
async fn next(lease: &Lease) -> Result<i64, StoreError> {
    let call = lease.call();
    let (store, deadline) = (call.shared.store(), call.shared.deadline());
    let key = call.shared.fence_key(&call.key());
    let ttl = fence_ttl(call.times.expiry.max(call.policy.ttl));
    let mut backoff = Backoff::until(Instant::now() + deadline, deadline);
    loop {
        let stored = backoff.attempt(store.get(&key)).await?;
        let stored = stored.map(|entry| entry.value);
        let last = stored.as_ref().map(|line| FenceLine::read(line));
        let next = FenceLine::without_claim(last.transpose()?, microseconds());
        let line = next.write();
        let drawn = match &stored {
            Some(stored) => {
                backoff
                    .attempt(store.replace(&key, stored, &line, ttl))
                    .await?
            }
            None => swap(backoff.attempt(store.claim(&key, &line, ttl)).await?),
        };
        if drawn == Swap::Done {
            return Ok(next.fence);
        }
        if !backoff.pause().await {
            let why = StoreError::new(StoreErrorKind::NotApplied, "the number changed at each try");
            return Err(why.reason("had another number at each try"));
        }
    }
}
