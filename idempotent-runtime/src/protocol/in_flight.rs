//! In-process single flight: duplicates of a running call do not reach the store.
//!
//! A call enters the table before it sends its claim. It leaves when its end is stored, or when this process can learn nothing more of
//! it. The table decides nothing: a duplicate either gets what the call has learned from the store, or asks the store itself.
//!
//! | a call that | leaves | with |
//! | --- | --- | --- |
//! | finds its key taken, and does not wait (any more) | at once (`wait`) | the record |
//! | gets no answer of the store | at once (`wait`) | "unavailable" |
//! | reads its answer after its lease, and is refused | at once (`wait`) | nothing |
//! | is dropped before it asks, or cannot be served | at once (`claim`) | nothing |
//! | is dropped while its claim is on its way | after the claim is withdrawn, or the withdrawal fails (`settle`) | nothing |
//! | is refused for its token, or dropped while it redeems it | after the claim is withdrawn, or the withdrawal fails (`settle`) | nothing |
//! | gets no answer while it redeems its token | at once (`redeem`) | "unavailable" |
//! | ends, with or without its caller | when its end is stored (`settle`) | the done record, if there is one |
//! | ends, and its caller gets the answer before its end is stored | when the caller gets it (`settle::settle`) | nothing |
//! | is dropped in its body | at once, or after its key is freed (`held`, `settle`) | nothing |
//! | loses its lease | at once (`lease`) | nothing |
//! | is freed by an operator | at once (`peek`) | nothing |
//!
//! A call that asks the store while an equal call is in the table never enters, so no duplicate sees its phases.

use std::fmt;
use std::sync::{Arc, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use tokio::sync::Notify;

use crate::key::fingerprint::Fingerprint;
use crate::protocol::state::{LastSeen, Phase, Snapshot, State};
use crate::store::Key;
use crate::sync::{Mutex, MutexGuard};

/// One call, as its duplicates in this process see it.
pub(crate) struct InFlight {
    call: Arc<dyn Keyed>,
    state: Mutex<State>,
    /// Wakes the duplicates that follow the call, at each new phase.
    pub(crate) phase_changed: Notify,
}

/// What two calls are compared by.
pub(crate) trait Keyed: Send + Sync {
    /// The whole key.
    fn key(&self) -> &Key;

    /// What must be equal among calls with one key.
    fn payload(&self) -> Option<Fingerprint>;
}

impl InFlight {
    /// A call that has not entered a table.
    pub(crate) fn new(call: Arc<dyn Keyed>) -> Self {
        Self {
            call,
            state: Mutex::new(State::new()),
            phase_changed: Notify::new(),
        }
    }

    fn key(&self) -> &Key {
        self.call.key()
    }

    /// The state of the call, for a duplicate that follows it. The duplicate must listen to `phase_changed` before.
    pub(crate) fn snapshot_as_follower(&self) -> Snapshot {
        self.state().snapshot_as_follower()
    }

    /// The state of the call, for a duplicate that does not wait for the next phase.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state().snapshot()
    }

    /// Whether both calls have a payload, and the payloads differ.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        let payloads = (self.call.payload(), other.call.payload());
        matches!(payloads, (Some(one), Some(other)) if one != other)
    }

    /// The state of the call, for the call itself.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the phase, and wakes the followers.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.set_phase_in(self.state(), phase);
    }

    /// As [`set_phase`](Self::set_phase), in the critical section that `state` has begun.
    pub(crate) fn set_phase_in(&self, mut state: MutexGuard<'_, State>, phase: Phase) {
        let before = state.set_phase(phase);
        let has_followers = state.has_followers();
        drop(state);
        drop(before);
        if has_followers {
            self.phase_changed.notify_waiters();
        }
    }

    /// Ends the call for its followers, and wakes them.
    fn dismiss_followers(&self, seen: LastSeen) {
        if self.state().dismiss_followers(seen) {
            self.phase_changed.notify_waiters();
        }
    }
}

/// The calls of one handle in this process, by their whole keys.
pub(crate) struct InFlightTable([Shard; SHARDS]);

/// Has its own cache line, so that threads in different shards do not slow each other down.
#[repr(align(128))]
#[derive(Default)]
struct Shard(Mutex<HashTable<Arc<InFlight>>>);

impl InFlightTable {
    /// Enters the call, unless the table has a call with its key: then returns that one.
    pub(crate) fn enter(&self, call: &Arc<InFlight>) -> Option<Arc<InFlight>> {
        let key = call.key();
        let mut shard = self.shard(key);
        match shard.entry(
            key.hash(),
            |other| other.key() == key,
            |other| other.key().hash(),
        ) {
            Entry::Occupied(other) => Some(Arc::clone(other.get())),
            Entry::Vacant(place) => {
                place.insert(Arc::clone(call));
                None
            }
        }
    }

    /// The other call with the key of `call`, if there is one in the table.
    pub(crate) fn find_other(&self, call: &Arc<InFlight>) -> Option<Arc<InFlight>> {
        let key = call.key();
        let shard = self.shard(key);
        let found = shard.find(key.hash(), |other| other.key() == key);
        found.filter(|other| !Arc::ptr_eq(other, call)).cloned()
    }

    /// Removes the call, and shows `seen` to its followers. Does nothing if the call is not in the table.
    pub(crate) fn leave(&self, call: &Arc<InFlight>, seen: LastSeen) {
        if self.remove(call) {
            call.dismiss_followers(seen);
        }
    }

    /// As [`leave`](Self::leave), for a call that has ended: removes it and stops its renewal.
    pub(crate) fn finish(&self, call: &Arc<InFlight>, seen: LastSeen) {
        let was_listed = self.remove(call);
        let mut state = call.state();
        state.stop_renewal();
        if was_listed {
            call.set_phase_in(state, Phase::Ended(seen));
        } else if !matches!(state.phase(), Phase::Ended(_)) {
            state.set_phase(Phase::Ended(seen));
        }
    }

    /// Removes the call with this key, because an operator has changed the record of the key.
    pub(crate) fn evict(&self, key: &Key) {
        if let Some(call) = self.take(key, |call| call.key() == key) {
            call.dismiss_followers(LastSeen::Unknown);
        }
    }

    /// Removes the call. Returns whether it was in the table.
    fn remove(&self, call: &Arc<InFlight>) -> bool {
        self.take(call.key(), |other| Arc::ptr_eq(other, call))
            .is_some()
    }

    /// Removes the call under `key` that `is_it` accepts.
    fn take(&self, key: &Key, is_it: impl FnMut(&Arc<InFlight>) -> bool) -> Option<Arc<InFlight>> {
        let mut shard = self.shard(key);
        let found = shard.find_entry(key.hash(), is_it).ok()?;
        Some(found.remove().0)
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, HashTable<Arc<InFlight>>> {
        // A byte from the middle, because the table in the shard uses both ends of the hash.
        let [.., middle, _, _, _] = key.hash().to_le_bytes();
        let shard = &self.0[usize::from(middle) % SHARDS];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for InFlightTable {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Shard::default()))
    }
}

impl fmt::Debug for InFlightTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightTable").finish_non_exhaustive()
    }
}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use bytes::Bytes;
    use futures_util::FutureExt as _;

    use super::*;

    impl Keyed for Key {
        fn key(&self) -> &Key {
            self
        }

        fn payload(&self) -> Option<Fingerprint> {
            None
        }
    }

    fn new_call(key: &str) -> Arc<InFlight> {
        Arc::new(InFlight::new(Arc::new(Key::new(key))))
    }

    fn has_ended(call: &InFlight) -> bool {
        matches!(call.snapshot_as_follower().phase, Phase::Ended(_))
    }

    #[test]
    fn the_second_call_with_a_key_gets_the_first() {
        let table = InFlightTable::default();
        let (first, second, other) = (new_call("k"), new_call("k"), new_call("l"));
        assert!(table.enter(&first).is_none());
        let found = table
            .enter(&second)
            .expect("the first call is in the table");
        assert!(Arc::ptr_eq(&found, &first));
        assert!(table.enter(&other).is_none());
    }

    #[test]
    fn a_call_that_never_entered_removes_no_other() {
        let table = InFlightTable::default();
        let (first, second) = (new_call("k"), new_call("k"));
        assert!(table.enter(&first).is_none());
        table.leave(&second, LastSeen::Unknown);
        assert!(!has_ended(&first) && !has_ended(&second));
        assert!(table.enter(&second).is_some());
    }

    #[test]
    fn followers_see_the_first_view_only() {
        let table = InFlightTable::default();
        let (first, second) = (new_call("k"), new_call("k"));
        table.enter(&first);
        table.leave(&first, LastSeen::Record(Bytes::from("record")));
        table.leave(&first, LastSeen::Unknown);
        let Phase::Ended(LastSeen::Record(seen)) = first.snapshot_as_follower().phase else {
            panic!("the call has ended with a record");
        };
        assert_eq!(seen, Bytes::from("record"));
        assert!(table.enter(&second).is_none(), "the key is free");
    }

    #[test]
    fn later_phases_of_a_call_that_has_left_are_not_seen() {
        let table = InFlightTable::default();
        let first = new_call("k");
        table.enter(&first);
        table.leave(&first, LastSeen::Unavailable);
        first.set_phase(Phase::Settling);
        assert!(matches!(first.state().phase(), Phase::Settling));
        let seen = first.snapshot_as_follower().phase;
        assert!(
            matches!(seen, Phase::Ended(LastSeen::Unavailable)),
            "{seen:?}"
        );
    }

    #[test]
    fn followers_are_woken_once_at_the_end() {
        let table = InFlightTable::default();
        let first = new_call("k");
        table.enter(&first);
        first.snapshot_as_follower();
        let mut woken = pin!(first.phase_changed.notified());
        woken.as_mut().enable();
        table.finish(&first, LastSeen::Record(Bytes::from("record")));
        assert!(woken.now_or_never().is_some(), "the end wakes followers");
        let mut woken = pin!(first.phase_changed.notified());
        woken.as_mut().enable();
        table.finish(&first, LastSeen::Unknown);
        assert!(woken.now_or_never().is_none(), "it had ended before");
        let seen = first.snapshot_as_follower().phase;
        assert!(
            matches!(seen, Phase::Ended(LastSeen::Record(_))),
            "{seen:?}"
        );
    }

    #[test]
    fn an_operator_removes_a_call_from_the_table() {
        let table = InFlightTable::default();
        let first = new_call("k");
        table.enter(&first);
        table.evict(&Key::new("k"));
        assert!(has_ended(&first));
        table.evict(&Key::new("k"));
        assert!(table.enter(&new_call("k")).is_none());
    }

    #[test]
    fn the_table_forgets_calls_that_have_left() {
        let table = InFlightTable::default();
        for round in 0..1000 {
            let call = new_call(&round.to_string());
            table.enter(&call);
            table.leave(&call, LastSeen::Unknown);
        }
        let calls = |shard: &Shard| shard.0.lock().unwrap().len();
        assert_eq!(table.0.iter().map(calls).sum::<usize>(), 0);
    }
}
