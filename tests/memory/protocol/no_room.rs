//! Results that the store has no room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::private::Refusal;
use idempotent_runtime::store::{Swap, Wrap};
use idempotent_runtime::{
    DuplicateState, Error, MemoryStore, Policy, Release, Store, StoreError, StoreErrorKind,
};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, millis, never, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

/// A store that renews, but has no room for a new value while the flag is set.
#[derive(Debug)]
struct Full(MemoryStore, Arc<AtomicBool>);

#[async_trait]
impl Wrap for Full {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        if expected != value && self.1.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Full, "no room"));
        }
        self.0.replace(key, expected, value, ttl).await
    }
}

fn full() -> (Full, Arc<AtomicBool>) {
    let is_full = Arc::new(AtomicBool::new(true));
    (Full(MemoryStore::new(), Arc::clone(&is_full)), is_full)
}

#[tokio::test(start_paused = true)]
async fn a_result_that_the_store_has_no_room_for_keeps_the_key_for_the_whole_ttl() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    assert_eq!(guarded.taken_for(1).await, Some(secs(60)));
    guarded.run(1, forever()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_held_because_the_store_is_full_stays_held_despite_a_renewal_in_flight() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(3600)).lease(secs(30)));
    store.next(Op::Replace, Fault::Delay(millis(500)));
    store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    let body = async {
        sleep(millis(10_100)).await;
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    sleep(secs(2)).await;
    guarded.settled().await;
    assert_eq!(store.remaining_faults(), 0);
    let taken = guarded.taken_for(1).await.unwrap();
    assert!(taken >= secs(3600 - 3), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn when_the_store_has_room_again_it_gets_the_fact_that_the_call_has_succeeded() {
    let (store, is_full) = full();
    let guarded = Guarded::on(store, policy());
    let begun = tokio::time::Instant::now();
    assert_eq!(guarded.replaying(1, yielding(Ok(7))).await.unwrap(), 7);
    assert!(begun.elapsed() < millis(1), "the caller waited");
    sleep(secs(50)).await;
    let is_claim = guarded.entry(1).await.unwrap().value;
    assert!(is_claim.starts_with(b"idem2 R"), "{is_claim:?}");
    is_full.store(false, Ordering::SeqCst);
    guarded.settled().await;
    let refused = guarded.replaying(1, never::<i32>()).await.unwrap_err();
    assert!(
        matches!(refused, Error::ResultUnavailable(_)),
        "{refused:?}"
    );
    guarded.run(1, forever()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_the_store_is_full_leaves_the_same() {
    let (store, is_full) = full();
    let store = FaultyStore::new(store);
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Replace, Fault::Delay(millis(50)));
    let dropped = timeout(millis(10), guarded.run(1, yielding(Ok(())))).await;
    assert!(dropped.is_err());
    sleep(secs(50)).await;
    is_full.store(false, Ordering::SeqCst);
    guarded.settled().await;
    let done = guarded.entry(1).await.unwrap().value;
    assert!(done.starts_with(b"idem2 D"), "{done:?}");
}

/// An operator has freed the key, so the tombstone must not take it again.
#[tokio::test(start_paused = true)]
async fn a_key_that_was_freed_stays_free_when_the_store_has_room_again() {
    let (store, is_full) = full();
    let guarded = Guarded::on(store, policy());
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    let peek = guarded.idempotency.peek("test.pay", &(1_u64,)).await;
    let peek = peek.unwrap().unwrap();
    assert!(guarded.idempotency.forget(&peek).await.unwrap());
    is_full.store(false, Ordering::SeqCst);
    guarded.settled().await;
    assert_eq!(guarded.entry(1).await, None);
}

/// The process that ran the body may have died, so nobody stores the tombstone.
#[tokio::test]
async fn a_claim_that_outlives_its_lease_is_not_taken_for_running() {
    let (store, _is_full) = full();
    let guarded = Guarded::on(store, policy().lease(millis(300)));
    assert_eq!(guarded.replaying(1, yielding(Ok(7))).await.unwrap(), 7);
    let elsewhere = guarded.elsewhere();
    let deadline = Instant::now() + secs(60);
    let refused = loop {
        match elsewhere.replaying(1, never::<i32>()).await.unwrap_err() {
            Error::InProgress(_) => assert!(Instant::now() < deadline, "it is taken for running"),
            other => break other,
        }
        yield_now().await;
    };
    let duplicate = refused.duplicate().unwrap();
    assert_eq!(refused.code(), "result_unavailable");
    assert_eq!(duplicate.state(), DuplicateState::Unknown);
    assert!(duplicate.free_in() > Some(secs(50)), "{duplicate:?}");
    let waiting = Guarded {
        policy: elsewhere.policy.wait(secs(600)),
        ..elsewhere.elsewhere()
    };
    let refused = waiting.replaying(1, never::<i32>()).await.unwrap_err();
    assert_eq!(refused.code(), "result_unavailable");
    let plain = elsewhere.call(1).claim().await.map_err(Refusal::into_error);
    assert_eq!(plain.unwrap_err().code(), "taken");
    let peek = elsewhere.idempotency.peek("test.pay", &(1_u64,)).await;
    assert_eq!(peek.unwrap().unwrap().state(), DuplicateState::Unknown);
}

/// The store and the renewals use the paused clock, and the age of a claim is by the time of day: a busy machine misses no renewal.
#[tokio::test(start_paused = true)]
async fn a_call_that_renews_its_lease_is_taken_for_running() {
    for release in [Release::OnError, Release::Always] {
        let policy = match release {
            Release::OnError => Policy::new(secs(60)).lease(millis(300)),
            _ => Policy::new(millis(300)).release(release),
        };
        let guarded = Guarded::in_memory(policy);
        let asks_when_old = async {
            sleep(millis(700)).await;
            let elsewhere = guarded.elsewhere();
            let peek = || elsewhere.idempotency.peek("test.pay", &(1_u64,));
            loop {
                let peeked = peek().await.unwrap();
                let age = peeked.map(|peek| SystemTime::now().duration_since(peek.since()));
                if age.is_some_and(|age| age.unwrap_or_default() > millis(700)) {
                    break;
                }
                yield_now().await;
            }
            let refused = elsewhere.call(1).claim().await.map_err(Refusal::into_error);
            assert_eq!(refused.unwrap_err().code(), "in_progress", "{release:?}");
            let peeked = peek().await.unwrap().unwrap();
            assert_eq!(peeked.state(), DuplicateState::Running, "{release:?}");
            Ok(())
        };
        guarded.run(1, asks_when_old).await.unwrap();
    }
}
