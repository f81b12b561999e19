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
//! | is dropped before it has asked, or cannot be served | at once (`Claiming`) | nothing |
//! | is dropped while its claim is on its way | when its claim was withdrawn, or could not be (`settle::Left`) | nothing |
//! | is refused for its token, or dropped while it redeems it | when its claim was withdrawn, or could not be (`settle`) | nothing |
//! | gets no answer while it redeems its token | at once (`redeeming`) | that |
//! | ends, with or without its caller | when the store has its end (`settle`) | the done record, if there is one |
//! | ends, and its caller gets the answer first | then (`settle::attended`) | nothing |
//! | is dropped in its body | at once, or when its key was freed (`Held`, `settle::Left`) | nothing |
//! | loses its lease | at once (`Lease::lose`) | nothing |
//! | is freed by an operator | at once (`peek`) | nothing |
//!
//! One that asks the store beside another never enters: its stages are seen by nobody.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, PoisonError, Weak};

use bytes::Bytes;
use foldhash::fast::RandomState;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::key::fingerprint::Fingerprint;
use crate::protocol::lease::Lease;
use crate::sync::{Mutex, MutexGuard};

/// One call that is under way, or is about to be.
pub(crate) struct Flight {
    pub(crate) key: String,
    pub(crate) payload: Option<Fingerprint>,
    hash: u64,
    progress: Mutex<Progress>,
    /// Tells those who follow that there is another stage.
    pub(crate) moved: Notify,
}

struct Progress {
    stage: Stage,
    /// Somebody has looked, and may wait for the next stage.
    followed: bool,
}

/// How far it has come.
#[derive(Clone)]
pub(crate) enum Stage {
    /// The store has not answered yet. It will have by then, or be asked again, if the call is still polled.
    Asking(Option<Instant>),
    /// It waits for the end of another call, made elsewhere, whose record this is.
    Waiting(Bytes),
    /// It has the key: its body runs, or its end is on its way to the store.
    Held(Weak<Lease>),
    /// It is over.
    Over(Found),
}

/// What is known of the store when a call is over.
#[derive(Clone)]
pub(crate) enum Found {
    Nothing,
    /// This stands there.
    Record(Bytes),
    /// It does not answer.
    Trouble,
}

impl Flight {
    /// The stage for one who follows: who waits for the next has registered with `moved` before.
    pub(crate) fn stage(&self) -> Stage {
        let mut progress = self.locked();
        progress.followed = true;
        progress.stage.clone()
    }

    /// Notes a stage, unless it was over.
    pub(crate) fn reach(&self, stage: Stage) {
        let mut progress = self.locked();
        if matches!(progress.stage, Stage::Over(_)) {
            return;
        }
        let before = std::mem::replace(&mut progress.stage, stage);
        let followed = progress.followed;
        drop(progress);
        drop(before);
        if followed {
            self.moved.notify_waiters();
        }
    }

    fn locked(&self) -> MutexGuard<'_, Progress> {
        let progress = self.progress.lock();
        progress.unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn flight(&self, key: String, payload: Option<Fingerprint>) -> Arc<Flight> {
        Arc::new(Flight {
            hash: self.seed.hash_one(&key),
            key,
            payload,
            progress: Mutex::new(Progress {
                stage: Stage::Asking(None),
                followed: false,
            }),
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
        let leaving = ByKey(Arc::clone(flight));
        let mut shard = self.shard(flight);
        match shard.take(&leaving) {
            Some(ByKey(other)) if Arc::ptr_eq(&other, flight) => {
                drop(shard);
                flight.reach(Stage::Over(found));
            }
            Some(other) => drop(shard.insert(other)),
            None => {}
        }
    }

    /// Ends whatever flies with this key: an operator has changed what stands under it.
    pub(crate) fn ground(&self, key: &str) {
        let any = self.flight(key.to_owned(), None);
        let grounded = self.shard(&any).take(&ByKey(Arc::clone(&any)));
        if let Some(ByKey(flight)) = grounded {
            flight.reach(Stage::Over(Found::Nothing));
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
        self.0.key == other.0.key
    }
}

impl Eq for ByKey {}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_over(flight: &Flight) -> bool {
        matches!(flight.stage(), Stage::Over(_))
    }

    #[test]
    fn the_second_with_a_key_is_shown_the_first() {
        let flights = Flights::default();
        let flight = |key: &str| flights.flight(key.to_owned(), None);
        let (first, second, other) = (flight("k"), flight("k"), flight("l"));
        assert!(flights.enter(&first).is_none());
        let found = flights.enter(&second).expect("the first flies");
        assert!(Arc::ptr_eq(&found, &first));
        assert!(flights.enter(&other).is_none());
    }

    #[test]
    fn who_never_entered_ends_nothing() {
        let flights = Flights::default();
        let flight = || flights.flight("k".to_owned(), None);
        let (first, second) = (flight(), flight());
        assert!(flights.enter(&first).is_none());
        flights.leave(&second, Found::Nothing);
        assert!(!is_over(&first) && !is_over(&second));
        assert!(flights.enter(&second).is_some());
    }

    #[test]
    fn what_was_found_is_told_once() {
        let flights = Flights::default();
        let flight = || flights.flight("k".to_owned(), None);
        let (first, second) = (flight(), flight());
        flights.enter(&first);
        flights.leave(&first, Found::Record(Bytes::from("record")));
        flights.leave(&first, Found::Nothing);
        let Stage::Over(Found::Record(found)) = first.stage() else {
            panic!("it is over");
        };
        assert_eq!(found, Bytes::from("record"));
        assert!(flights.enter(&second).is_none(), "the key is free");
    }

    #[test]
    fn what_an_operator_removed_flies_no_more() {
        let flights = Flights::default();
        let first = flights.flight("k".to_owned(), None);
        flights.enter(&first);
        flights.ground("k");
        assert!(is_over(&first));
        flights.ground("k");
        assert!(
            flights
                .enter(&flights.flight("k".to_owned(), None))
                .is_none()
        );
    }

    #[test]
    fn nothing_is_kept_of_those_that_have_left() {
        let flights = Flights::default();
        for round in 0..1000 {
            let flight = flights.flight(round.to_string(), None);
            flights.enter(&flight);
            flights.leave(&flight, Found::Nothing);
        }
        let held = |shard: &Shard| shard.0.lock().unwrap().len();
        assert_eq!(flights.shards.iter().map(held).sum::<usize>(), 0);
    }
}
