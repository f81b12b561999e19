//! A call with permits claims any free slot of its key in one round trip, if the store can do so.
//!
//! The message has a claim of each slot, with new owners. If a copy of the message reaches the store late, while the call has one of the
//! slots, the copy finds the record of the call there, and takes no other slot. The message is sent once: without an answer
//! the claims are withdrawn, and the call goes on [slot by slot](crate::protocol::permit).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::error::Error;
use crate::protocol::claim::ClaimGuard;
use crate::protocol::expiry;
use crate::protocol::fence;
use crate::protocol::held::Held;
use crate::protocol::lease::Lease;
use crate::protocol::permit::{PermitRound, TakenKey, any_slot};
use crate::protocol::refusal::{self, Refusal};
use crate::protocol::retry::StoreAttempt;
use crate::protocol::seen::SeenRecord;
use crate::protocol::stuck;
use crate::protocol::waiter::Waiter;
use crate::store::{ClaimAny, StoreErrorKind};

/// What the answer to the claims of all slots means.
enum Found {
    Free(Held),
    /// All slots are taken, and this record expires first.
    Taken(TakenKey),
    /// A late copy of an earlier claim had a slot. It is removed, so the call must claim again.
    Copy,
    /// The store does not look at the slots together, or has not answered.
    Unknown,
}

impl Waiter {
    /// Claims until this call has a slot, or all are taken and no time to wait remains. `None`: the call must claim one slot after
    /// another.
    pub(crate) async fn claim_free_slot(&mut self) -> Option<Result<Held, Refusal>> {
        loop {
            let taken = match self.claim_any().await {
                Found::Free(held) => return Some(Ok(held)),
                Found::Taken(taken) => taken,
                Found::Copy => continue,
                Found::Unknown => return None,
            };
            let (lease, asked_until) = (Arc::clone(&self.lease), Instant::now());
            self.last_holder = taken.holder(asked_until);
            let pause = self.pause(&lease, taken, asked_until, true);
            if let Err(refusal) = pause.await {
                return Some(Err(refusal));
            }
        }
    }

    /// Claims the first free slot, from a random slot on.
    async fn claim_any(&mut self) -> Found {
        let permits = self.lease.call().policy.most_holders().unwrap_or(1);
        if permits > MOST_TOGETHER {
            return Found::Unknown;
        }
        let leases = slots(&self.lease, permits);
        let Some(first) = leases.first() else {
            return Found::Unknown;
        };
        let guard = |lease| ClaimGuard::of_waiter(lease, None);
        let mut guards: Vec<_> = leases.iter().map(guard).collect();
        let (shared, ttl) = (&first.call().shared, first.call().times.expiry);
        let claims: Vec<_> = leases
            .iter()
            .map(|lease| (&**lease.key(), lease.record()))
            .collect();
        let claim = StoreAttempt::first(shared.store().claim_any(&claims, ttl), shared.deadline());
        let now = Instant::now();
        for guard in &mut guards {
            guard.note_sent(now, now + claim.limit());
        }
        match claim.await {
            Ok(ClaimAny::Claimed(at)) if at < leases.len() => {
                let mut won = guards.remove(at);
                guards.iter_mut().for_each(ClaimGuard::note_unstored);
                if let Some(guard) = won.start_lease(false) {
                    return Found::Free(Held::new(Arc::clone(&leases[at]), guard));
                }
            }
            Ok(ClaimAny::Taken(records)) if records.len() == leases.len() => {
                let found = leases.iter().zip(records);
                let found: Vec<_> = found.map(|(lease, record)| read(lease, record)).collect();
                // The records of other keys are the answer to another request, so a claim may be stored.
                if !found
                    .iter()
                    .all(|(_, refusal)| is_foreign(refusal.as_ref()))
                {
                    guards.iter_mut().for_each(ClaimGuard::note_unstored);
                }
                drop(guards);
                return self.judge_taken(&leases, found).await;
            }
            Ok(ClaimAny::NotTogether) => {
                guards.iter_mut().for_each(ClaimGuard::note_unstored);
                return Found::Unknown;
            }
            // A client that repeats commands may have stored a claim before: the call then finds it.
            Err(error) if error.kind() != StoreErrorKind::Unknown => {
                guards.iter_mut().for_each(ClaimGuard::note_unstored);
            }
            // The claims may be stored: dropping the guards withdraws them.
            _ => {}
        }
        self.note_refused(&leases);
        Found::Unknown
    }

    /// Judges the records of all slots.
    async fn judge_taken(&mut self, leases: &[Arc<Lease>], found: Vec<ReadRecord>) -> Found {
        let mut records = leases.iter().zip(&found);
        let copy = records.find(|(_, (record, _))| self.refused_claims.contains(record.bytes()));
        self.note_refused(leases);
        let backoff = self.backoff();
        if let Some((lease, (record, _))) = copy {
            let removal = Box::pin(fence::withdraw(lease, record.bytes()));
            return match backoff.attempt(removal).await {
                Ok(_) => Found::Copy,
                Err(_) => Found::Unknown,
            };
        }
        let found = leases.iter().zip(found);
        let looks = found.map(async |(lease, (record, refusal))| {
            if let Some(refusal) = refusal {
                return TakenKey { record, refusal };
            }
            let record = expiry::look(lease, record, &backoff).await;
            let refusal = Refusal::from_record(lease, &record, false);
            stuck::report(lease, &record, &refusal);
            TakenKey { record, refusal }
        });
        let taken = join_all(looks).await;
        PermitRound::all_taken(taken).map_or(Found::Unknown, Found::Taken)
    }

    /// Notes the claims, of which a copy may reach the store later. The oldest are forgotten: a copy of them holds its slot for a lease.
    fn note_refused(&mut self, leases: &[Arc<Lease>]) {
        let records = leases.iter().map(|lease| lease.record().clone());
        self.refused_claims.extend(records);
        let too_many = self.refused_claims.len();
        let too_many = too_many.saturating_sub(MOST_ROUNDS * leases.len());
        self.refused_claims.drain(..too_many);
    }
}

/// The record of a slot, and why the call is refused; `None` if the store must be asked [when it expires](expiry).
type ReadRecord = (Arc<SeenRecord>, Option<Refusal>);

/// Reads the record of a slot, once.
fn read(lease: &Lease, record: Bytes) -> ReadRecord {
    let (call, seen) = (lease.call(), SeenRecord::new(lease.key(), record));
    let refused = match seen.read(call.shared.records()) {
        Some(read) if expiry::is_unclear_claim(call, &read) => None,
        Some(read) => Some(Refusal::by_holder(call, &read, false, None)),
        None => Some(refusal::foreign(call, &seen).into()),
    };
    (Arc::new(seen), refused)
}

fn is_foreign(refusal: Option<&Refusal>) -> bool {
    let error = refusal.and_then(Refusal::plain_error);
    matches!(error, Some(Error::ForeignRecord(_)))
}

/// A claim of each slot, from a random slot on. Each has a state of its own, so each can be withdrawn while the call goes on.
fn slots(lease: &Arc<Lease>, permits: u8) -> Vec<Arc<Lease>> {
    let call = lease.call();
    let hash = call.shared.in_flight_table().hash(&call.site);
    let first = any_slot(call);
    let slots = (first..permits).chain(0..first);
    let claim = |slot| Lease::new(call.clone(), hash).with_slot(slot);
    slots.map(claim).collect()
}

/// A key with more permits is claimed slot by slot, because a claim without an answer needs a withdrawal of each slot.
const MOST_TOGETHER: u8 = 16;
/// So many rounds of a call that waits are remembered.
const MOST_ROUNDS: usize = 16;
