//! A call with permits: at most so many calls hold its key at once.
//!
//! A key with N permits has N slots. Each slot is a key of its own in the store: slot 0 is the key itself, and the fingerprints of the
//! others differ in their last byte. A call claims one slot by the protocol of a call with one key. So the
//! slot of a killed holder becomes free with its lease, and calls of a program without permits count as the holder of slot 0.
//!
//! A call claims [the first free slot](crate::protocol::free_slot) in one round trip. If the store cannot do so, or does not
//! answer, or the key has more than 16 slots, the call claims one slot after another: any slot first. If that slot is taken, the call reads all
//! others at once, and claims those that are free, until it gets one. A round ends when all are taken: the call is refused, or waits and begins the next round at the slot that was reported as free.
//! Calls do not follow each other. Those of one process that wait stand in a [line](crate::protocol::line); of the first calls of the lines, the first to claim a free slot gets it. If a call claims
//! slot by slot, and the store applies a claim of another slot late, after the call has got one, that slot is taken until its lease ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::error::Error;
use crate::protocol::context::CallContext;
use crate::protocol::lease::Lease;
use crate::protocol::refusal::Refusal;
use crate::protocol::retry::Backoff;
use crate::protocol::seen::{LastHolder, Lives, SeenRecord};
use crate::protocol::stuck;
use crate::store::Key;
use crate::world;

/// The record that has a slot, and why its call refuses another.
pub(crate) struct TakenKey {
    pub(crate) record: Arc<SeenRecord>,
    pub(crate) refusal: Refusal,
}

/// One round of a call with permits.
#[derive(Default)]
pub(crate) struct PermitRound {
    /// The running calls that were met.
    holders: usize,
    /// The record that expires first, of those that were met.
    first: Option<TakenKey>,
    /// The slots that were free when they were read; `None` if they were not read yet.
    free: Option<Vec<u8>>,
}

impl PermitRound {
    /// Notes that the slot of `lease` is taken. Returns the slot to claim next, or the end of the round. The call has made
    /// `refused_claims` before.
    pub(crate) async fn next(
        &mut self,
        lease: &Arc<Lease>,
        refused_claims: &[Bytes],
        backoff: &Backoff,
        taken: TakenKey,
    ) -> Result<u8, TakenKey> {
        if matches!(taken.refusal.plain_error(), Some(Error::ForeignRecord(_))) {
            // The claim may be stored: the answer belongs to another request.
            *self = Self::default();
            return Err(taken);
        }
        let mut first = self.note(taken);
        let mut free = if let Some(free) = self.free.take() {
            free
        } else {
            let (read, mut free) = read_others(lease, refused_claims, backoff).await;
            for taken in read {
                self.first = Some(first);
                first = self.note(taken);
            }
            free.reverse();
            free
        };
        let Some(next) = free.pop() else {
            let holders = self.holders;
            *self = Self::default();
            return Err(first.held_by(holders));
        };
        (self.first, self.free) = (Some(first), Some(free));
        Ok(next)
    }

    /// The record that expires first of all slots, which are taken.
    pub(crate) fn all_taken(all: Vec<TakenKey>) -> Option<TakenKey> {
        let mut round = Self::default();
        for taken in all {
            round.first = Some(round.note(taken));
        }
        Some(round.first?.held_by(round.holders))
    }

    /// Counts the holder of a slot. Returns the record that expires first.
    fn note(&mut self, taken: TakenKey) -> TakenKey {
        self.holders += usize::from(taken.free_in().is_some());
        match self.first.take() {
            Some(first) if !taken.is_before(&first) => first,
            _ => taken,
        }
    }
}

impl TakenKey {
    /// The holder that this record names.
    pub(crate) fn holder(&self, asked_until: Instant) -> LastHolder {
        let duplicate = self.refusal.plain_error().and_then(Error::duplicate)?;
        let lasts = duplicate.free_in()?;
        Some((Arc::clone(&self.record), asked_until + lasts))
    }

    fn held_by(self, holders: usize) -> Self {
        let Self { record, refusal } = self;
        let refusal = refusal.held_by(holders);
        Self { record, refusal }
    }

    /// When the slot becomes free, if a running call has it.
    fn free_in(&self) -> Option<Duration> {
        match self.refusal.plain_error() {
            Some(Error::InProgress(duplicate)) => duplicate.free_in(),
            _ => None,
        }
    }

    fn is_before(&self, other: &Self) -> bool {
        match (self.free_in(), other.free_in()) {
            (Some(one), Some(other)) => one < other,
            (one, None) => one.is_some(),
            (None, Some(_)) => false,
        }
    }
}

/// The slot that a call claims first: 0 without permits.
pub(crate) fn any_slot(call: &CallContext) -> u8 {
    let permits = call.policy.most_holders().filter(|permits| *permits > 1);
    permits.map_or(0, |permits| {
        u8::try_from(world::random_bits() % u128::from(permits)).unwrap_or_default()
    })
}

/// The keys of all slots, or the only key.
pub(crate) fn keys(lease: &Lease) -> Vec<(u8, Key)> {
    let call = lease.call();
    let Some(permits) = call.policy.most_holders() else {
        return vec![(0, lease.key().clone())];
    };
    let key = |slot| (slot, call.key_of(&call.site_of_slot(slot)));
    (0..permits).map(key).collect()
}

/// Reads all slots but the slot of `lease`, at once. Returns which are taken, and which may be free.
async fn read_others(
    lease: &Arc<Lease>,
    refused_claims: &[Bytes],
    backoff: &Backoff,
) -> (Vec<TakenKey>, Vec<u8>) {
    let call = lease.call();
    let store = call.shared.store();
    let (mut keys, asked) = (keys(lease), Instant::now());
    keys.retain(|(slot, _)| *slot != lease.slot());
    // All are sent before the first answer.
    let reads = keys.iter().map(|(_, key)| backoff.attempt(store.get(key)));
    let entries = join_all(reads).await;
    let (mut taken, mut free) = (Vec::new(), Vec::new());
    for ((slot, key), entry) in keys.iter().zip(entries) {
        // Without an answer the slot may be free: its claim reports what is wrong.
        let entry = entry.ok().flatten();
        // A late copy of a claim of this call is no holder: the next claim of its slot removes it.
        let Some(entry) = entry.filter(|entry| !refused_claims.contains(&entry.value)) else {
            free.push(*slot);
            continue;
        };
        let lives = entry.ttl.map(|ttl| Lives {
            until: asked + ttl,
            is_kept: false,
        });
        let record = Arc::new(SeenRecord::with_time(key, entry.value, lives));
        let refusal = Refusal::from_record(lease, &record, false);
        let lease = Arc::clone(lease).with_slot(*slot);
        if let Some(read) = record.read(call.shared.records())
            && stuck::may_be(call, read.age(world::time_of_day()))
        {
            let stuck_keys = call.shared.stuck_keys();
            stuck_keys.may_ask(&lease.site_of_slot(), record.bytes(), asked);
        }
        stuck::report(&lease, &record, &refusal);
        taken.push(TakenKey { record, refusal });
    }
    (taken, free)
}
