use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::*;
use crate::key::endpoint::Endpoint;
use crate::protocol::followers::{Waits, WakesAt};

/// A call with nothing but a key.
struct Call {
    in_flight: InFlight,
    site: Site,
    key: Key,
}

impl Leader for Call {
    fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn keys(&self) -> Option<KeysDigest> {
        None
    }

    fn payload(&self) -> Option<&Fingerprint> {
        None
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn shown_record(&self) -> Arc<SeenRecord> {
        Arc::new(SeenRecord::new(&self.key, Bytes::new()))
    }
}

fn site(key: &str) -> Site {
    let fingerprint = Fingerprint::of(&(key,)).expect("a text is a key part");
    Site::without_key(Endpoint::named("orders.pay")).with_key(fingerprint)
}

fn new_call(table: &InFlightTable, key: &str) -> Arc<Call> {
    let site = site(key);
    Arc::new(Call {
        in_flight: InFlight::new(table.hash(&site)),
        key: Key::new(key),
        site,
    })
}

fn last_seen(record: &'static str) -> LastSeen {
    LastSeen::Record(Arc::new(SeenRecord::new(
        &Key::new("idem:test"),
        Bytes::from(record),
    )))
}

fn phase(call: &Call) -> Phase {
    call.in_flight.snapshot().phase
}

/// A follower of the call, which waits for its next phase, and whether it was woken.
fn follow(call: &Arc<Call>, wakes_at: WakesAt) -> Arc<Task> {
    let task = Arc::new(Task::default());
    let leader: Arc<dyn Leader> = call.clone();
    let scheduler = Scheduler::current().expect("a runtime");
    let mut state = call.in_flight.state();
    state.announced_to_follower();
    let waits = Waits {
        waker: &Waker::from(task.clone()),
        until: Instant::now() + Duration::from_secs(1),
        wakes_at,
    };
    let ring = || -> Arc<dyn Scheduled> { Ring::new(&leader, &scheduler) };
    state.followers().wait(None, &waits, &scheduler, ring);
    task
}

/// Whether a task was woken.
#[derive(Default)]
struct Task(AtomicBool);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Task {
    fn was_woken(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn has_ended(call: &Call) -> bool {
    matches!(phase(call), Phase::Ended(_))
}

#[test]
fn entering_the_table_with_a_used_key_returns_the_call_that_uses_it() {
    let table = InFlightTable::default();
    let (first, second, other) = (
        new_call(&table, "k"),
        new_call(&table, "k"),
        new_call(&table, "l"),
    );
    assert!(table.enter(&first, |_| false).is_none());
    let found = table
        .enter(&second, |_| false)
        .expect("the first call is in the table");
    assert!(is_same(&found, &*first));
    assert!(table.enter(&other, |_| false).is_none());
}

#[test]
fn a_call_that_never_entered_removes_no_other() {
    let table = InFlightTable::default();
    let (first, second) = (new_call(&table, "k"), new_call(&table, "k"));
    assert!(table.enter(&first, |_| false).is_none());
    table.leave(&*second, LastSeen::Unknown);
    assert!(!has_ended(&first) && !has_ended(&second));
    assert!(table.enter(&second, |_| false).is_some());
}

#[test]
fn followers_see_the_first_view_only() {
    let table = InFlightTable::default();
    let (first, second) = (new_call(&table, "k"), new_call(&table, "k"));
    table.enter(&first, |_| false);
    table.leave(&*first, last_seen("record"));
    table.leave(&*first, LastSeen::Unknown);
    let Phase::Ended(LastSeen::Record(seen)) = phase(&first) else {
        panic!("the call has ended with a record");
    };
    assert_eq!(seen.bytes(), "record");
    assert!(table.enter(&second, |_| false).is_none(), "the key is free");
}

#[test]
fn later_phases_of_a_call_that_has_left_are_not_seen() {
    let table = InFlightTable::default();
    let first = new_call(&table, "k");
    table.enter(&first, |_| false);
    table.leave(&*first, LastSeen::Unavailable);
    first.in_flight.set_phase(Phase::Settling);
    assert!(matches!(first.in_flight.state().phase(), Phase::Settling));
    let seen = phase(&first);
    assert!(
        matches!(seen, Phase::Ended(LastSeen::Unavailable)),
        "{seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn followers_are_woken_at_the_end_and_by_no_other_phase() {
    let table = InFlightTable::default();
    let first = new_call(&table, "k");
    table.enter(&first, |_| false);
    let (patient, hasty) = (
        follow(&first, WakesAt::End),
        follow(&first, WakesAt::Running),
    );
    first.in_flight.set_phase(Phase::Asking(None));
    assert!(!patient.was_woken() && !hasty.was_woken());
    first.in_flight.set_phase(Phase::Running);
    assert!(!patient.was_woken() && hasty.was_woken());
    table.finish(&*first, |_| None, || last_seen("record"));
    assert!(patient.was_woken(), "the end wakes followers");
    table.finish(&*first, |_| None, || LastSeen::Unknown);
    let seen = phase(&first);
    assert!(
        matches!(seen, Phase::Ended(LastSeen::Record(_))),
        "{seen:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn followers_are_woken_when_they_stop_waiting() {
    let table = InFlightTable::default();
    let first = new_call(&table, "k");
    table.enter(&first, |_| false);
    let early = follow(&first, WakesAt::End);
    sleep(Duration::from_millis(400)).await;
    let late = follow(&first, WakesAt::End);
    sleep(Duration::from_millis(700)).await;
    assert!(early.was_woken() && !late.was_woken());
    sleep(Duration::from_millis(700)).await;
    assert!(late.was_woken());
}

#[test]
fn an_operator_removes_a_call_from_the_table() {
    let table = InFlightTable::default();
    let first = new_call(&table, "k");
    table.enter(&first, |_| false);
    table.evict(&site("k"), &Key::new("k"));
    assert!(has_ended(&first));
    table.evict(&site("k"), &Key::new("k"));
    assert!(table.enter(&new_call(&table, "k"), |_| false).is_none());
}

#[test]
fn the_table_forgets_calls_that_have_left() {
    let table = InFlightTable::default();
    for round in 0..1000 {
        let call = new_call(&table, &round.to_string());
        table.enter(&call, |_| false);
        table.leave(&*call, LastSeen::Unknown);
    }
    let calls = |shard: &CallShard| shard.0.lock().unwrap().len();
    assert_eq!(table.shards.iter().map(calls).sum::<usize>(), 0);
}

#[test]
fn a_call_that_takes_back_its_followers_knows_the_places_of_earlier_ones() {
    let table = InFlightTable::default();
    let record = Arc::new(SeenRecord::new(&Key::new("k"), "record".into()));
    for (phase, seen) in [
        (Phase::Lost("a test"), LastSeen::Unknown),
        (Phase::Asking(None), LastSeen::Replaced),
        (Phase::Waiting(record), LastSeen::Replaced),
    ] {
        let call = new_call(&table, "k");
        call.in_flight.set_phase(phase);
        let mut state = call.in_flight.state();
        let before = state.announced_to_follower();
        state.followers();
        assert!(state.keeps_places_since(Some(before)));
        drop(state.dismiss_followers(seen));
        state.take_back_duplicates();
        assert!(!state.keeps_places_since(Some(before)));
        let after = state.announced_to_follower();
        assert!(state.shown_phase().is_ok() && state.keeps_places_since(Some(after)));
    }
}

#[test]
fn a_call_whose_key_an_operator_has_freed_gets_no_followers_again() {
    let table = InFlightTable::default();
    let call = new_call(&table, "k");
    call.in_flight.set_phase(Phase::Settling);
    table.enter(&call, |_| false);
    table.evict(&site("k"), &Key::new("k"));
    call.in_flight.state().take_back_duplicates();
    assert!(has_ended(&call));
}

#[tokio::test(start_paused = true)]
async fn the_followers_of_a_replaced_call_find_the_next_call() {
    let table = InFlightTable::default();
    let (first, second) = (new_call(&table, "k"), new_call(&table, "k"));
    table.enter(&first, |_| false);
    let follower = follow(&first, WakesAt::End);
    let found = table.enter(&second, |other| !is_same(other, &*first));
    assert!(found.is_some() && !follower.was_woken());
    assert!(
        table
            .enter(&second, |other| is_same(other, &*first))
            .is_none()
    );
    assert!(follower.was_woken());
    let seen = phase(&first);
    assert!(matches!(seen, Phase::Ended(LastSeen::Replaced)), "{seen:?}");
    let found = table.enter(&first, |_| false).expect("the second call");
    assert!(is_same(&found, &*second));
    // A call that was replaced removes no other.
    table.leave(&*first, LastSeen::Unknown);
    assert!(table.enter(&first, |_| false).is_some());
}

/// An operator may free the key at the moment in which its call enters the table again.
#[tokio::test(start_paused = true)]
async fn an_equal_call_asks_the_store_if_a_call_in_the_table_has_ended() {
    let idempotency = crate::Idempotency::new(crate::MemoryStore::new());
    let call = || {
        let policy = crate::Policy::new(Duration::from_mins(1));
        let endpoint = Endpoint::named("orders.pay");
        let mut call = crate::call::Call::new(endpoint, policy, Some(&idempotency));
        call.part(&7_u64);
        call
    };
    let held = call().claim().await.expect("the key is free");
    let woken = held
        .lease
        .in_flight()
        .state()
        .dismiss_followers(LastSeen::Unknown);
    drop(woken);
    let Err(refused) = call().claim().await else {
        panic!("the store has the claim");
    };
    assert_eq!(refused.into_error().code(), "in_progress");
    held.settle(false).await;
    call().claim().await.expect("the key is free again");
}
