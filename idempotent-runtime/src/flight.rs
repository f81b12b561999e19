//! The calls of one handle that are under way in this process, so that a duplicate of one need not ask the store.
//!
//! A call enters before it sends its claim, and leaves when its end stands in the store, or when nothing more can
//! be said of it here. Nothing is decided here: who follows a flight is told what the store has told it, or asks
//! the store in its turn.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use foldhash::fast::RandomState;
use tokio::sync::Notify;

use crate::fingerprint::Fingerprint;

/// One call that is under way, or is about to be.
pub(crate) struct Flight {
    pub(crate) key: String,
    pub(crate) payload: Option<Fingerprint>,
    stage: Mutex<Stage>,
    /// Tells those who follow that there is another stage.
    pub(crate) moved: Notify,
}

/// How far it has come.
#[derive(Clone)]
pub(crate) enum Stage {
    /// The store has not answered yet.
    Asking,
    /// It waits for the end of another call, made elsewhere, whose record this is.
    Waiting(Bytes),
    /// It has the key, by this record: its body runs, or its end is on its way to the store.
    Held(Bytes),
    /// It is over. The record is what stands in the store, if that is known.
    Over(Option<Bytes>),
}

impl Flight {
    pub(crate) fn new(key: String, payload: Option<Fingerprint>) -> Arc<Self> {
        Arc::new(Self {
            key,
            payload,
            stage: Mutex::new(Stage::Asking),
            moved: Notify::new(),
        })
    }

    pub(crate) fn stage(&self) -> Stage {
        self.locked().clone()
    }

    /// Notes a stage before the last.
    pub(crate) fn reach(&self, stage: Stage) {
        *self.locked() = stage;
        self.moved.notify_waiters();
    }

    fn locked(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that are under way, by their whole keys.
pub(crate) struct Flights {
    seed: RandomState,
    shards: [Shard; SHARDS],
}

/// Has a cache line of its own, so that threads in different shards do not slow each other.
#[repr(align(128))]
struct Shard(Mutex<HashSet<ByKey, RandomState>>);

struct ByKey(Arc<Flight>);

impl Flights {
    /// Lets `flight` take off; if another with its key is under way, answers with that.
    pub(crate) fn enter(&self, flight: &Arc<Flight>) -> Option<Arc<Flight>> {
        let mut shard = self.shard(&flight.key);
        if let Some(ByKey(other)) = shard.get(&*flight.key) {
            return Some(Arc::clone(other));
        }
        shard.insert(ByKey(Arc::clone(flight)));
        None
    }

    /// Ends `flight`, unless it has ended or never began; `found` is what stands in the store, if that is known.
    pub(crate) fn leave(&self, flight: &Flight, found: Option<Bytes>) {
        let mut shard = self.shard(&flight.key);
        let Some(ByKey(other)) = shard.take(&*flight.key) else {
            return;
        };
        if !std::ptr::eq(&raw const *other, flight) {
            shard.insert(ByKey(other));
            return;
        }
        drop(shard);
        flight.reach(Stage::Over(found));
    }

    /// Ends whatever flies with this key: an operator has changed what stands under it.
    pub(crate) fn ground(&self, key: &str) {
        let grounded = self.shard(key).take(key);
        if let Some(ByKey(flight)) = grounded {
            flight.reach(Stage::Over(None));
        }
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, HashSet<ByKey, RandomState>> {
        // From the middle: the map inside the shard uses both ends.
        let [.., middle, _, _, _] = self.seed.hash_one(key).to_le_bytes();
        let shard = &self.shards[usize::from(middle) % SHARDS];
        shard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Flights {
    fn default() -> Self {
        let seed = RandomState::default();
        Self {
            shards: std::array::from_fn(|_| Shard(Mutex::new(HashSet::with_hasher(seed.clone())))),
            seed,
        }
    }
}

impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").finish_non_exhaustive()
    }
}

impl Borrow<str> for ByKey {
    fn borrow(&self) -> &str {
        &self.0.key
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(key: &str) -> Arc<Flight> {
        Flight::new(key.to_owned(), None)
    }

    fn is_over(flight: &Flight) -> bool {
        matches!(flight.stage(), Stage::Over(_))
    }

    #[test]
    fn the_second_with_a_key_is_shown_the_first() {
        let flights = Flights::default();
        let (first, second, other) = (flight("k"), flight("k"), flight("l"));
        assert!(flights.enter(&first).is_none());
        let found = flights.enter(&second).expect("the first flies");
        assert!(Arc::ptr_eq(&found, &first));
        assert!(flights.enter(&other).is_none());
    }

    #[test]
    fn who_never_entered_ends_nothing() {
        let flights = Flights::default();
        let (first, second) = (flight("k"), flight("k"));
        assert!(flights.enter(&first).is_none());
        flights.leave(&second, None);
        assert!(!is_over(&first) && !is_over(&second));
        assert!(flights.enter(&second).is_some());
    }

    #[test]
    fn what_was_found_is_told_once() {
        let flights = Flights::default();
        let (first, second) = (flight("k"), flight("k"));
        flights.enter(&first);
        flights.leave(&first, Some(Bytes::from("record")));
        flights.leave(&first, None);
        let Stage::Over(found) = first.stage() else {
            panic!("it is over");
        };
        assert_eq!(found, Some(Bytes::from("record")));
        assert!(flights.enter(&second).is_none(), "the key is free");
    }

    #[test]
    fn what_an_operator_removed_flies_no_more() {
        let flights = Flights::default();
        let first = flight("k");
        flights.enter(&first);
        flights.ground("k");
        assert!(is_over(&first));
        flights.ground("k");
        assert!(flights.enter(&flight("k")).is_none());
    }

    #[test]
    fn nothing_is_kept_of_those_that_have_left() {
        let flights = Flights::default();
        for round in 0..1000 {
            let flight = flight(&round.to_string());
            flights.enter(&flight);
            flights.leave(&flight, None);
        }
        let held = |shard: &Shard| shard.0.lock().unwrap().len();
        assert_eq!(flights.shards.iter().map(held).sum::<usize>(), 0);
    }
}
