//! The calls of one handle that are under way in this process, so that a duplicate of one need not ask the store.
//!
//! A call enters before it sends its claim, and leaves when its end stands in the store, or when nothing more can
//! be said of it here. Nothing is decided here: who follows a flight is told what the store has told it, or asks
//! the store in its turn.
//!
//! | a call | leaves | with |
//! | --- | --- | --- |
//! | is told that its key is taken, and does not wait (any more) | at once (`wait`) | the record |
//! | gets no answer of the store | at once (`wait`) | that |
//! | is dropped before it has asked, or cannot be served | at once (`claim`) | nothing |
//! | is dropped while its claim is on its way | when its claim was withdrawn, or could not be (`settle`) | nothing |
//! | is refused for its token, or dropped while it redeems it | when its claim was withdrawn, or could not be (`settle`) | nothing |
//! | gets no answer while it redeems its token | at once (`redeem`) | that |
//! | ends, with or without its caller | when the store has its end (`settle`) | the done record, if there is one |
//! | ends, and its caller gets the answer first | then (`settle::attended`) | nothing |
//! | is dropped in its body | at once, or when its key was freed (`held`, `settle`) | nothing |
//! | loses its lease | at once (`lease`) | nothing |
//! | is freed by an operator | at once (`peek`) | nothing |
//!
//! One that asks the store beside another never enters: its phases are seen by nobody.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::Notify;

use crate::key::fingerprint::Fingerprint;
use crate::protocol::state::{Found, Phase, Seen, State};
use crate::sync::{Mutex, MutexGuard};

/// One call that is under way, or is about to be.
pub(crate) struct Flight {
    call: Arc<dyn Keyed>,
    hash: u64,
    state: Mutex<State>,
    /// Tells those who follow that there is another phase.
    pub(crate) moved: Notify,
}

/// What two calls are compared by.
pub(crate) trait Keyed: Send + Sync {
    /// The whole key.
    fn key(&self) -> &str;

    /// What has to be equal among calls with one key.
    fn payload(&self) -> Option<Fingerprint>;
}

impl Flight {
    /// How far the call has come, for a duplicate that follows it and has registered with `moved` before.
    pub(crate) fn subscribe(&self) -> Seen {
        let mut state = self.state();
        state.followed = true;
        state.seen()
    }

    /// How far the call has come, for one that does not wait for the next phase.
    pub(crate) fn look(&self) -> Seen {
        self.state().seen()
    }

    /// Whether both calls have a payload, and another one.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        let payloads = (self.call.payload(), other.call.payload());
        matches!(payloads, (Some(one), Some(other)) if one != other)
    }

    /// The state of the call, for the call itself.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the call on, and wakes those who follow it.
    pub(crate) fn reach(&self, phase: Phase) {
        self.reach_from(self.state(), phase);
    }

    /// The same in one critical section with what was noted in `state`.
    pub(crate) fn reach_from(&self, mut state: MutexGuard<'_, State>, phase: Phase) {
        let before = std::mem::replace(&mut state.phase, phase);
        let followed = state.followed && state.left.is_none();
        drop(state);
        drop(before);
        if followed {
            self.moved.notify_waiters();
        }
    }

    /// Tells those who follow that the call is over for them.
    fn leave(&self, found: Found) {
        let mut state = self.state();
        if state.left.is_none() {
            state.left = Some(found);
            let followed = state.followed;
            drop(state);
            if followed {
                self.moved.notify_waiters();
            }
        }
    }
}

/// All that are under way, by their whole keys.
pub(crate) struct Flights {
    seed: RandomState,
    shards: [Shard; SHARDS],
}

/// Has a cache line of its own, so that threads in different shards do not slow each other.
#[repr(align(128))]
struct Shard(Mutex<HashSet<ByKey, BuildHasherDefault<AsWritten>>>);

struct ByKey(Arc<Flight>);

impl Flights {
    /// A flight that has not taken off.
    pub(crate) fn flight(&self, call: Arc<dyn Keyed>) -> Arc<Flight> {
        Arc::new(Flight {
            hash: self.seed.hash_one(call.key()),
            call,
            state: Mutex::new(State::new()),
            moved: Notify::new(),
        })
    }

    /// Lets `flight` take off; if another with its key is under way, answers with that.
    pub(crate) fn enter(&self, flight: &Arc<Flight>) -> Option<Arc<Flight>> {
        let mut shard = self.shard(flight);
        let entering = ByKey(Arc::clone(flight));
        if let Some(ByKey(other)) = shard.get(&entering) {
            return Some(Arc::clone(other));
        }
        shard.insert(entering);
        None
    }

    /// The one that flies with the key of `flight`, if that is another.
    pub(crate) fn beside(&self, flight: &Arc<Flight>) -> Option<Arc<Flight>> {
        let shard = self.shard(flight);
        let ByKey(other) = shard.get(&ByKey(Arc::clone(flight)))?;
        (!Arc::ptr_eq(other, flight)).then(|| Arc::clone(other))
    }

    /// Ends `flight`, unless it has ended or never began.
    pub(crate) fn leave(&self, flight: &Arc<Flight>, found: Found) {
        if self.take(flight) {
            flight.leave(found);
        }
    }

    /// The same when the call itself is over: one critical section for both.
    pub(crate) fn finish(&self, flight: &Arc<Flight>, found: Found) {
        let listed = self.take(flight);
        let mut state = flight.state();
        state.renew_no_more();
        if listed {
            flight.reach_from(state, Phase::Over(found));
        } else if !matches!(state.phase, Phase::Over(_)) {
            state.phase = Phase::Over(found);
        }
    }

    /// Ends whatever flies with this key: an operator has changed what stands under it.
    pub(crate) fn ground(&self, key: &str) {
        let any = self.flight(Arc::new(Key(key.to_owned())));
        let grounded = self.shard(&any).take(&ByKey(Arc::clone(&any)));
        if let Some(ByKey(flight)) = grounded {
            flight.leave(Found::Nothing);
        }
    }

    /// Takes `flight` out. Whether it was in.
    fn take(&self, flight: &Arc<Flight>) -> bool {
        let leaving = ByKey(Arc::clone(flight));
        let mut shard = self.shard(flight);
        match shard.take(&leaving) {
            Some(ByKey(other)) if Arc::ptr_eq(&other, flight) => true,
            Some(other) => {
                shard.insert(other);
                false
            }
            None => false,
        }
    }

    fn shard(
        &self,
        flight: &Flight,
    ) -> MutexGuard<'_, HashSet<ByKey, BuildHasherDefault<AsWritten>>> {
        // From the middle: the set inside the shard uses both ends.
        let [.., middle, _, _, _] = flight.hash.to_le_bytes();
        let shard = &self.shards[usize::from(middle) % SHARDS];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Flights {
    fn default() -> Self {
        Self {
            seed: RandomState::default(),
            shards: std::array::from_fn(|_| Shard(Mutex::default())),
        }
    }
}

impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").finish_non_exhaustive()
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// Takes a hash that was made before: a key is hashed once in each call.
#[derive(Default)]
struct AsWritten(u64);

impl Hasher for AsWritten {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.call.key() == other.0.call.key()
    }
}

impl Eq for ByKey {}

/// A key without a call.
struct Key(String);

impl Keyed for Key {
    fn key(&self) -> &str {
        &self.0
    }

    fn payload(&self) -> Option<Fingerprint> {
        None
    }
}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use bytes::Bytes;
    use futures_util::FutureExt as _;

    use super::*;

    fn flight(flights: &Flights, key: &str) -> Arc<Flight> {
        flights.flight(Arc::new(Key(key.to_owned())))
    }

    fn is_over(flight: &Flight) -> bool {
        matches!(flight.subscribe().phase, Phase::Over(_))
    }

    #[test]
    fn the_second_with_a_key_is_shown_the_first() {
        let flights = Flights::default();
        let flight = |key| flight(&flights, key);
        let (first, second, other) = (flight("k"), flight("k"), flight("l"));
        assert!(flights.enter(&first).is_none());
        let found = flights.enter(&second).expect("the first flies");
        assert!(Arc::ptr_eq(&found, &first));
        assert!(flights.enter(&other).is_none());
    }

    #[test]
    fn who_never_entered_ends_nothing() {
        let flights = Flights::default();
        let (first, second) = (flight(&flights, "k"), flight(&flights, "k"));
        assert!(flights.enter(&first).is_none());
        flights.leave(&second, Found::Nothing);
        assert!(!is_over(&first) && !is_over(&second));
        assert!(flights.enter(&second).is_some());
    }

    #[test]
    fn what_was_found_is_told_once() {
        let flights = Flights::default();
        let (first, second) = (flight(&flights, "k"), flight(&flights, "k"));
        flights.enter(&first);
        flights.leave(&first, Found::Record(Bytes::from("record")));
        flights.leave(&first, Found::Nothing);
        let Phase::Over(Found::Record(found)) = first.subscribe().phase else {
            panic!("it is over");
        };
        assert_eq!(found, Bytes::from("record"));
        assert!(flights.enter(&second).is_none(), "the key is free");
    }

    #[test]
    fn a_call_that_has_left_goes_on_unseen() {
        let flights = Flights::default();
        let first = flight(&flights, "k");
        flights.enter(&first);
        flights.leave(&first, Found::Trouble);
        first.reach(Phase::Settling);
        assert!(matches!(first.state().phase, Phase::Settling));
        let seen = first.subscribe().phase;
        assert!(matches!(seen, Phase::Over(Found::Trouble)), "{seen:?}");
    }

    #[test]
    fn who_follows_hears_of_the_end_once() {
        let flights = Flights::default();
        let first = flight(&flights, "k");
        flights.enter(&first);
        first.subscribe();
        let mut moved = pin!(first.moved.notified());
        moved.as_mut().enable();
        flights.finish(&first, Found::Record(Bytes::from("record")));
        assert!(moved.now_or_never().is_some(), "the end is heard of");
        let mut again = pin!(first.moved.notified());
        again.as_mut().enable();
        flights.finish(&first, Found::Nothing);
        assert!(again.now_or_never().is_none(), "it ended before");
        let seen = first.subscribe().phase;
        assert!(matches!(seen, Phase::Over(Found::Record(_))), "{seen:?}");
    }

    #[test]
    fn what_an_operator_removed_flies_no_more() {
        let flights = Flights::default();
        let first = flight(&flights, "k");
        flights.enter(&first);
        flights.ground("k");
        assert!(is_over(&first));
        flights.ground("k");
        assert!(flights.enter(&flight(&flights, "k")).is_none());
    }

    #[test]
    fn nothing_is_kept_of_those_that_have_left() {
        let flights = Flights::default();
        for round in 0..1000 {
            let flight = flight(&flights, &round.to_string());
            flights.enter(&flight);
            flights.leave(&flight, Found::Nothing);
        }
        let held = |shard: &Shard| shard.0.lock().unwrap().len();
        assert_eq!(flights.shards.iter().map(held).sum::<usize>(), 0);
    }
}
