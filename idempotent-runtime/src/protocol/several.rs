//! A call with several keys: it claims all of them or none.
//!
//! A call first claims all keys in one step, if the store can, and holds none if one is taken. If it then waits, or if the store cannot,
//! it claims its keys one after another, in the order of the keys in the store, and holds the smaller keys while it waits for a larger
//! one. So calls never wait for each other in a circle: each call of a circle would wait for a larger key than the
//! call before it. Without `wait`, one of two calls with the same keys always runs: the one that gets the smallest key.
//!
//! All its records have a [digest of its keys](KeysDigest), in the order in which the caller names them. So a call that finds a key taken
//! knows whether the holder is an equal call, as after a double click, or one that only shares this key.
//!
//! If a key is taken, or a lease is lost while the call waits, the other claims are withdrawn before the call is refused. The claims
//! emit no end of the call: only the claim that fails does, or the key of the call after all claims.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::error::Error;
use crate::key::fingerprint::Fingerprint;
use crate::mutation::mutation;
use crate::observe::EventKind;
use crate::protocol::claim::ClaimGuard;
use crate::protocol::context::CallContext;
use crate::protocol::ending::Ending;
use crate::protocol::held::Held;
use crate::protocol::lease::Lease;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::StoreAttempt;
use crate::protocol::settle;
use crate::protocol::wait;
use crate::record::keys_digest::KeysDigest;
use crate::store::{Claim, ClaimAll, StoreError, StoreErrorKind};

/// A call with several keys, before its claims.
pub(crate) struct Several {
    /// The call once for each key, in the order of the keys in the store.
    calls: Vec<CallContext>,
    /// The key that names the call.
    key: Option<Fingerprint>,
}

impl Several {
    /// The call with the key of `call`, and `further` keys of the same endpoint.
    pub(crate) fn new(mut call: CallContext, further: impl Iterator<Item = Fingerprint>) -> Self {
        let key = call.site.fingerprint;
        let keys: Vec<_> = key.into_iter().chain(further).collect();
        call.keys = Some(KeysDigest::of(call.shared.keying(), &keys));
        let further = (0..).zip(keys.into_iter().skip(1));
        let mut calls: Vec<_> = further
            .map(|(number, key)| call.with_further_key(number, key))
            .collect();
        calls.insert(0, call);
        // The keys differ only in their fingerprints. The sort is stable, so of equal keys the first stays.
        if !mutation!(OrderOfCaller) {
            calls.sort_by(|one, other| bytes(one).cmp(bytes(other)));
        }
        calls.dedup_by(|one, other| bytes(one) == bytes(other));
        Self { calls, key }
    }

    /// Claims all keys. Round trips: 1 if the store claims them together, else 1 for each key.
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
        let refused = claimed.claim_together(&self.calls).await?;
        if claimed.leases.is_empty() {
            claimed.claim_in_turn(self.calls, refused, began).await?;
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
    /// Claims all keys in one step, if no other call of this process has one of them and the store can do so. If the keys are not
    /// claimed, returns the records of the claims: a copy of them may reach the store later.
    ///
    /// A claim without an answer is withdrawn, so the call goes on like a call whose dropped claims are withdrawn.
    async fn claim_together(&mut self, calls: &[CallContext]) -> Result<Vec<Bytes>, Refusal> {
        let leases: Vec<_> = calls.iter().map(|call| lease(call.clone())).collect();
        let [first, _, ..] = &*leases else {
            return Ok(Vec::new());
        };
        if leases.iter().any(|lease| lease.find_other().is_some()) {
            return Ok(Vec::new());
        }
        self.next = Some(Arc::clone(first));
        let guard = |lease| ClaimGuard::of_waiter(lease, None);
        let mut guards: Vec<_> = leases.iter().map(guard).collect();
        for lease in &leases {
            // A call that is in the table by now asks the store as well.
            lease.enter();
        }
        let (shared, ttl) = (&first.call().shared, first.call().times.expiry);
        let claims: Vec<_> = leases
            .iter()
            .map(|lease| (&**lease.key(), lease.record()))
            .collect();
        let claim = StoreAttempt::first(shared.store().claim_all(&claims, ttl), shared.deadline());
        let now = Instant::now();
        for guard in &mut guards {
            guard.note_sent(now, now + claim.limit());
        }
        let answer = claim.await;
        self.next = None;
        match answer {
            Ok(ClaimAll::Claimed) => {
                for guard in &mut guards {
                    // `hold` looks whether a lease has expired.
                    let skips_expiry_check = true;
                    guard.start_lease(skips_expiry_check);
                }
                drop(guards);
                self.leases = leases;
                return Ok(Vec::new());
            }
            Err(ref error) if error.kind() == StoreErrorKind::Unknown => {}
            // The record of another key is the answer to another request, so the claims may be stored.
            Ok(ClaimAll::Taken(at, ref record)) if !is_readable(&leases, at, record) => {}
            _ => guards.iter_mut().for_each(ClaimGuard::note_unstored),
        }
        if let Ok(ClaimAll::Taken(at, record)) = answer
            && let Some(taken) = leases.get(at)
            && taken.call().policy.longest_wait().is_none()
        {
            guards[at].defuse();
            self.next = Some(Arc::clone(taken));
            let answer = Ok(Claim::Taken(record));
            let refused = wait::contend(Arc::clone(taken), Some(now), answer).await;
            self.next = None;
            refused?;
        }
        let records = leases.iter().map(|lease| lease.record().clone());
        Ok(records.collect())
    }

    /// Claims one key after another. `refused` has the records of earlier claims, in the order of the keys.
    async fn claim_in_turn(
        &mut self,
        calls: Vec<CallContext>,
        refused: Vec<Bytes>,
        began: Instant,
    ) -> Result<(), Refusal> {
        let mut refused = refused.into_iter();
        for mut call in calls {
            let wait = call.policy.longest_wait();
            // The whole call waits for `wait`. Not 0, because a call without `wait` tells no other call that it ends.
            let remaining =
                |wait: Duration| wait.saturating_sub(began.elapsed()).max(SHORTEST_WAIT);
            call.policy.wait = wait.map(remaining);
            let lease = lease(call);
            self.next = Some(Arc::clone(&lease));
            let mut claim = Box::pin(wait::claim(lease, refused.next()));
            let answer = poll_fn(|cx| {
                if let Poll::Ready(answer) = claim.as_mut().poll(cx) {
                    return Poll::Ready(answer);
                }
                let lost = self.watch(cx.waker());
                lost.map_or(Poll::Pending, |lost| Poll::Ready(Err(lost)))
            })
            .await;
            drop(claim);
            self.next = None;
            match answer {
                Ok(held) => self.leases.push(held.into_lease()),
                Err(refusal) => {
                    self.withdraw().await;
                    return Err(refusal);
                }
            }
        }
        Ok(())
    }

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
    async fn withdraw(&mut self) {
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

/// Whether the bytes are a record of this version and of the key at this place.
fn is_readable(leases: &[Arc<Lease>], at: usize, record: &Bytes) -> bool {
    leases.get(at).is_some_and(|lease| {
        let records = lease.call().shared.records();
        records.read(lease.key(), record).is_some()
    })
}

fn lease(call: CallContext) -> Arc<Lease> {
    let hash = call.shared.in_flight_table().hash(&call.site);
    Lease::new(call, hash)
}

const SHORTEST_WAIT: Duration = Duration::from_millis(1);

fn bytes(call: &CallContext) -> &[u8] {
    call.site
        .fingerprint
        .as_ref()
        .map_or(&[], Fingerprint::as_bytes)
}
