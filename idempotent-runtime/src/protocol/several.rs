//! A call with several keys: it claims all of them or none.
//!
//! Every call claims its keys one after another, in the order of the keys in the store, and holds the smaller keys while it waits for
//! a larger one. So calls never wait for each other in a circle: each call of a circle would wait for a larger key than the
//! call before it. Without `wait`, one of two calls with the same keys always runs: the one that gets the smallest key.
//!
//! If a key is taken, or a lease is lost while the call waits, the other claims are withdrawn before the call is refused. The claims
//! emit no end of the call: only the claim that fails does, or the key of the call after all claims.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::error::Error;
use crate::key::fingerprint::Fingerprint;
use crate::observe::EventKind;
use crate::protocol::context::CallContext;
use crate::protocol::ending::Ending;
use crate::protocol::held::Held;
use crate::protocol::lease::Lease;
use crate::protocol::refusal::Refusal;
use crate::protocol::settle;
use crate::protocol::wait;
use crate::store::{StoreError, StoreErrorKind};
use crate::world::mutant;

/// A call with several keys, before its claims.
pub(crate) struct Several {
    /// The call once for each key, in the order of the keys in the store.
    calls: Vec<CallContext>,
    /// The key that names the call.
    key: Option<Fingerprint>,
}

impl Several {
    /// The call with the key of `call`, and `further` keys of the same endpoint.
    pub(crate) fn new(call: CallContext, further: impl Iterator<Item = Fingerprint>) -> Self {
        let key = call.site.fingerprint;
        let further = (0..).zip(further);
        let mut calls: Vec<_> = further
            .map(|(number, key)| call.with_further_key(number, key))
            .collect();
        calls.insert(0, call);
        // The keys differ only in their fingerprints. The sort is stable, so of equal keys the first stays.
        if !mutant!(OrderOfCaller) {
            calls.sort_by(|one, other| bytes(one).cmp(bytes(other)));
        }
        calls.dedup_by(|one, other| bytes(one) == bytes(other));
        Self { calls, key }
    }

    /// Claims all keys. Round trips: 1 for each key.
    ///
    /// # Errors
    ///
    /// Why the body must not run: of the first key that is not free, or whose lease is lost while the call waits for another key.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, a background task withdraws the claims.
    pub(crate) async fn claim(self) -> Result<Held, Refusal> {
        let began = Instant::now();
        let mut claimed = Claimed::default();
        for mut call in self.calls {
            let wait = call.policy.longest_wait();
            // The whole call waits for `wait`. Not 0, because a call without `wait` tells no other call that it ends.
            let remaining =
                |wait: Duration| wait.saturating_sub(began.elapsed()).max(SHORTEST_WAIT);
            call.policy.wait = wait.map(remaining);
            let hash = call.shared.in_flight_table().hash(&call.site);
            let lease = Lease::new(call, hash);
            claimed.next = Some(Arc::clone(&lease));
            let mut claim = Box::pin(wait::claim(lease));
            let answer = poll_fn(|cx| {
                if let Poll::Ready(answer) = claim.as_mut().poll(cx) {
                    return Poll::Ready(answer);
                }
                let lost = claimed.watch(cx.waker());
                lost.map_or(Poll::Pending, |lost| Poll::Ready(Err(lost)))
            })
            .await;
            drop(claim);
            claimed.next = None;
            match answer {
                Ok(held) => claimed.leases.push(held.into_lease()),
                Err(refusal) => {
                    claimed.withdraw().await;
                    return Err(refusal);
                }
            }
        }
        claimed.hold(self.key).await
    }
}

/// The claims that have their keys. Dropping this withdraws them in the background.
#[derive(Default)]
struct Claimed {
    leases: Vec<Arc<Lease>>,
    /// The claim that is on its way.
    next: Option<Arc<Lease>>,
}

impl Claimed {
    /// Renews the leases while the call waits. Returns the refusal of the call if a lease is lost.
    fn watch(&self, task: &Waker) -> Option<Refusal> {
        for lease in &self.leases {
            lease.watch(task);
        }
        self.lose_if_expired()
    }

    /// The refusal of the call if a lease is lost. Emits it as the end of the call.
    fn lose_if_expired(&self) -> Option<Refusal> {
        let mut leases = self.leases.iter();
        let lost = leases.find(|lease| lease.lose_if_expired().is_some())?;
        let late = StoreError::new(StoreErrorKind::Unknown, "the claims of all keys");
        let late = late.reason("lost the lease of one key before all keys were claimed");
        let error = Error::store(lost.call().site.clone(), late);
        lost.call().emit_refusal(&error);
        Some(error.into())
    }

    /// The call, which holds all keys.
    async fn hold(mut self, key: Option<Fingerprint>) -> Result<Held, Refusal> {
        if let Some(lost) = self.lose_if_expired() {
            self.withdraw().await;
            return Err(lost);
        }
        let mut further = std::mem::take(&mut self.leases);
        let names = |lease: &Arc<Lease>| lease.call().site.fingerprint == key;
        let place = further.iter().position(names).unwrap_or_default();
        let lease = further.remove(place);
        Ok(Held::of_several(lease, further))
    }

    /// Withdraws the claims, for at most the handle's deadline. After that it continues in the background.
    async fn withdraw(mut self) {
        join_all(self.take().map(|end| settle::settle(Some(end)))).await;
    }

    fn take(&mut self) -> impl Iterator<Item = (Arc<Lease>, Ending)> + use<> {
        let leases = std::mem::take(&mut self.leases).into_iter();
        leases.map(|lease| {
            lease.drop_body();
            (lease, Ending::Withdraw)
        })
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(next) = &self.next {
            next.call().emit_end(EventKind::of_a_dropped_call());
        }
        for (lease, ending) in self.take() {
            settle::settle_in_background(lease, ending);
        }
    }
}

const SHORTEST_WAIT: Duration = Duration::from_millis(1);

fn bytes(call: &CallContext) -> &[u8] {
    call.site
        .fingerprint
        .as_ref()
        .map_or(&[], Fingerprint::as_bytes)
}
