//! In-process single flight: duplicates of a running call do not reach the store.
//!
//! A call enters the table before it sends its claim. It leaves when its end is stored, or when its duplicates can learn
//! nothing more from it. A duplicate gets the store's answer to the call, or the outcome of the call that the store has not taken
//! yet, or asks the store itself.
//!
//! | a call that | leaves | with |
//! | --- | --- | --- |
//! | finds its key taken, and does not wait (any more) | at once (`wait`) | the record |
//! | gets no answer of the store | at once (`wait`) | "unavailable" |
//! | reads its answer after its lease, and is refused | at once (`wait`) | nothing |
//! | is dropped before it asks, or cannot be served | at once (`claim`) | nothing |
//! | is dropped while its claim is on its way | after the claim is withdrawn, or the withdrawal fails (`settle`); earlier if a duplicate replaces it, because no answer came in time (`follow`) | nothing |
//! | is refused for its token, or dropped while it redeems it | the same | nothing |
//! | gets no answer while it redeems its token | at once (`redeem`) | "unavailable" |
//! | ends, with or without its caller | when its end is stored (`settle`) | the done record, if there is one |
//! | ends, and the store does not take its outcome in time | when its outcome is stored, or never will be (`settle`); its duplicates get the outcome before | the done record, if it is stored |
//! | ends without an outcome, and its caller gets the answer because the deadline is over | when the caller gets it (`settle::settle`) | nothing |
//! | ends without an outcome with `settle = "background"` | when its end is stored, or its first send fails (`settle`) | nothing |
//! | is dropped in its body | at once, or after its key is freed or its claim is marked (`held`, `settle`, `mark`) | nothing |
//! | loses its lease | at once (`lease`); it enters again to show its outcome (`unrecorded`) | nothing |
//! | is freed by an operator | at once (`peek`) | nothing |
//! | asks or waits, and an equal call has an outcome that the store has not taken | when that call replaces it to show the outcome (`unrecorded`) | nothing |
//!
//! A call that asks the store while an equal call is in the table does not enter, so no duplicate sees its phases. A call does this if the
//! equal call waits or is not polled, or if its own time to wait is over. It enters when the store has not taken its outcome in time and no equal call
//! has the key (`unrecorded`).

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::ptr;
use std::sync::{Arc, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use tokio::time::Instant;

use crate::error::Site;
use crate::key::fingerprint::Fingerprint;
use crate::protocol::scheduler::{Scheduled, Scheduler, Work};
use crate::protocol::seen::SeenRecord;
use crate::protocol::state::{LastSeen, Phase, Snapshot, State};
use crate::record::keys_digest::KeysDigest;
use crate::store::Key;
use crate::sync::{Mutex, MutexGuard};

/// The part of a call that its duplicates in this process see.
pub(crate) struct InFlight {
    /// The hash of the fingerprint, for the table.
    hash: u64,
    state: Mutex<State>,
}

/// A call in the table, as its duplicates in this process see it.
pub(crate) trait Leader: Send + Sync {
    fn in_flight(&self) -> &InFlight;

    /// The endpoint and the fingerprint, by which calls are compared.
    fn site(&self) -> &Site;

    /// The digest of all keys of the call, if it has several.
    fn keys(&self) -> Option<KeysDigest>;

    /// The digest of the payload, which must be equal among equal calls.
    fn payload(&self) -> Option<&Fingerprint>;

    /// The key in the store.
    fn key(&self) -> &Key;

    /// The record of the claim that has the key.
    fn shown_record(&self) -> Arc<SeenRecord>;
}

impl InFlight {
    /// A call that has not entered a table.
    #[inline]
    pub(crate) fn new(hash: u64) -> Self {
        Self {
            hash,
            state: Mutex::new(State::new()),
        }
    }

    /// The state of the call, for a duplicate that does not wait for the next phase.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state().snapshot()
    }

    /// The state of the call, for the call itself and for duplicates that wait for its next phase.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the phase, and wakes the followers.
    pub(crate) fn set_phase(&self, phase: Phase) {
        Self::set_phase_in(self.state(), phase);
    }

    /// As [`set_phase`](Self::set_phase), in the critical section that `state` has begun.
    pub(crate) fn set_phase_in(mut state: MutexGuard<'_, State>, phase: Phase) {
        let before = state.set_phase(phase);
        let woken = state.announce_phase();
        drop(state);
        drop(before);
        if let Some(woken) = woken {
            woken.wake();
        }
    }

    /// Notes that the claim of a call without a caller is withdrawn, which takes until `answer_due` if the store answers.
    pub(crate) fn note_withdrawing(&self, answer_due: Instant) {
        let mut state = self.state();
        match state.phase() {
            // Its followers are not woken: each has a timer for the instant at which the answer was due.
            Phase::Asking(due) => {
                let due = due.map_or(answer_due, |due| due.min(answer_due));
                state.set_phase(Phase::Withdrawing(due));
            }
            Phase::Waiting(_) => Self::set_phase_in(state, Phase::Withdrawing(answer_due)),
            _ => {}
        }
    }

    /// Ends the call for its followers, and wakes them.
    fn dismiss_followers(&self, seen: LastSeen) {
        let woken = self.state().dismiss_followers(seen);
        if let Some(woken) = woken {
            woken.wake();
        }
    }
}

/// Wakes the followers of a call on one runtime that stop waiting.
pub(crate) struct Ring {
    leader: Arc<dyn Leader>,
    scheduler: Arc<Scheduler>,
}

impl Ring {
    pub(crate) fn new(leader: &Arc<dyn Leader>, scheduler: &Arc<Scheduler>) -> Arc<Self> {
        Arc::new(Self {
            leader: Arc::clone(leader),
            scheduler: Arc::clone(scheduler),
        })
    }
}

impl Scheduled for Ring {
    fn due_work(self: Arc<Self>) -> Option<Work> {
        let mut state = self.leader.in_flight().state();
        let followers = state.followers();
        let again = || -> Arc<dyn Scheduled> { self.clone() };
        let woken = followers.take_due(Instant::now(), &self.scheduler, again);
        drop(state);
        woken.wake();
        None
    }
}

/// The calls of one handle in this process, by their endpoints and fingerprints.
pub(crate) struct InFlightTable {
    seed: RandomState,
    shards: [CallShard; SHARDS],
}

type Calls = HashTable<Arc<dyn Leader>>;

/// A shard has its own cache line, so that threads in different shards do not slow each other down.
#[repr(align(128))]
#[derive(Default)]
struct CallShard(Mutex<Calls>);

impl InFlightTable {
    /// The hash of a call.
    pub(crate) fn hash(&self, site: &Site) -> u64 {
        let mut hasher = self.seed.build_hasher();
        if let Some(fingerprint) = &site.fingerprint {
            hasher.write(fingerprint.as_bytes());
        }
        hasher.finish()
    }

    /// Enters the call. If the table has an equal call, replaces the equal call if `may_replace` accepts it, and otherwise returns it. The
    /// followers of a replaced call follow `call`.
    pub(crate) fn enter(
        &self,
        call: &Arc<impl Leader + 'static>,
        may_replace: impl FnOnce(&Arc<dyn Leader>) -> bool,
    ) -> Option<Arc<dyn Leader>> {
        let hash = call.in_flight().hash;
        let mut shard = self.shard(hash);
        let is_equal = |other: &Arc<dyn Leader>| is_equal(other.site(), call.site());
        let replaced = match shard.entry(hash, is_equal, |other| other.in_flight().hash) {
            Entry::Vacant(place) => {
                place.insert(Arc::clone(call) as _);
                return None;
            }
            Entry::Occupied(mut other) if may_replace(other.get()) => {
                std::mem::replace(other.get_mut(), Arc::clone(call) as _)
            }
            Entry::Occupied(other) => return Some(Arc::clone(other.get())),
        };
        // The table has the next call before a follower looks for it.
        drop(shard);
        replaced.in_flight().dismiss_followers(LastSeen::Replaced);
        None
    }

    /// The other call that equals `call`, if there is one in the table.
    pub(crate) fn find_other(&self, call: &impl Leader) -> Option<Arc<dyn Leader>> {
        let hash = call.in_flight().hash;
        let shard = self.shard(hash);
        let found = shard.find(hash, |other| is_equal(other.site(), call.site()));
        found.filter(|other| !is_same(other, call)).cloned()
    }

    /// Removes the call, and shows `seen` to its followers. Does nothing if the call is not in the table.
    pub(crate) fn leave(&self, call: &impl Leader, seen: LastSeen) {
        if self.remove(call) {
            call.in_flight().dismiss_followers(seen);
        }
    }

    /// Does the same as [`leave`](Self::leave), for a call that has ended: removes the call and stops its renewal. `hold_until`
    /// is when its record must expire, if that is decided now. `seen` is made only for followers.
    pub(crate) fn finish(
        &self,
        call: &impl Leader,
        hold_until: impl FnOnce(&State) -> Option<Instant>,
        seen: impl FnOnce() -> LastSeen,
    ) {
        let was_listed = self.remove(call);
        let mut state = call.in_flight().state();
        if let Some(until) = hold_until(&state) {
            state.set_hold_until(until);
        }
        state.stop_renewal();
        let seen = if state.is_followed() {
            seen()
        } else {
            LastSeen::Unknown
        };
        if was_listed {
            InFlight::set_phase_in(state, Phase::Ended(seen));
        } else if !matches!(state.phase(), Phase::Ended(_)) {
            state.set_phase(Phase::Ended(seen));
        }
    }

    /// Removes the call with this key, because an operator has removed the record of the key.
    pub(crate) fn evict(&self, site: &Site, key: &Key) {
        // A call in a transaction has the same site, but another key.
        let is_it = |call: &Arc<dyn Leader>| is_equal(call.site(), site) && call.key() == key;
        if let Some(call) = self.take(self.hash(site), is_it) {
            call.in_flight().dismiss_followers(LastSeen::Unknown);
        }
    }

    /// Removes the call. Returns whether it was in the table.
    fn remove(&self, call: &impl Leader) -> bool {
        self.take(call.in_flight().hash, |other| is_same(other, call))
            .is_some()
    }

    /// Removes the call with this hash that `is_it` accepts.
    fn take(
        &self,
        hash: u64,
        is_it: impl FnMut(&Arc<dyn Leader>) -> bool,
    ) -> Option<Arc<dyn Leader>> {
        let mut shard = self.shard(hash);
        let found = shard.find_entry(hash, is_it).ok()?;
        Some(found.remove().0)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Calls> {
        // A byte from the middle, because the table in the shard uses both ends of the hash.
        let [.., middle, _, _, _] = hash.to_le_bytes();
        let shard = &self.shards[usize::from(middle) % SHARDS];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two calls have the same endpoint and the same fingerprint.
fn is_equal(one: &Site, other: &Site) -> bool {
    one.fingerprint == other.fingerprint && one.endpoint == other.endpoint
}

fn is_same(other: &Arc<dyn Leader>, call: &impl Leader) -> bool {
    ptr::addr_eq(Arc::as_ptr(other), ptr::from_ref(call))
}

impl Default for InFlightTable {
    fn default() -> Self {
        Self {
            seed: RandomState::default(),
            shards: std::array::from_fn(|_| CallShard::default()),
        }
    }
}

impl fmt::Debug for InFlightTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightTable").finish_non_exhaustive()
    }
}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests;
