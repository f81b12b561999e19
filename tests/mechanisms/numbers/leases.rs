//! The lease of a machine id: numbers are issued until it ends.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::store::{self, Bytes, Swap, async_trait};
use idempotent_runtime::{
    Event, EventKind, Idempotency, MemoryStore, OrderNumbers, Store, StoreError, StoreErrorKind,
};
use tokio::time::{Instant, advance, sleep, sleep_until};

use crate::numbers::{
    LEASE, MILLISECOND, SECRET, SKEW, USER, builder, is_unavailable, key_of, machine_of, numbers,
    occupy_all_but,
};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_until_the_last_clone_is_dropped() {
    let store = CountingStore::new(MemoryStore::new());
    let numbers = numbers(store.clone()).await;
    assert_eq!((store.counts().claim, store.counts().total()), (1, 1));
    let id = machine_of(&numbers);
    sleep(LEASE * 100).await;
    assert_eq!(machine_of(&numbers), id);
    let counts = store.counts();
    assert_eq!(counts.total(), 1 + counts.replace, "{counts:?}");
    assert!((299..=301).contains(&counts.replace), "{counts:?}");

    drop(numbers);
    sleep(LEASE * 100).await;
    assert_eq!(store.counts().replace, counts.replace + 1);
    assert!(store.inner().is_empty());
}

#[tokio::test(start_paused = true)]
async fn issuing_and_checking_send_nothing() {
    let store = CountingStore::new(MemoryStore::new());
    let numbers = numbers(store.clone()).await;
    store.reset();
    let number = numbers.issue(&USER).unwrap();
    assert_eq!(numbers.check(number.as_str(), &USER).unwrap(), number);
    assert_eq!(store.counts().total(), 0);
    assert_eq!(store.inner().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_the_end_of_a_lease_nothing_is_issued_and_the_id_stays_reserved() {
    for fault in [Fault::Hang, Fault::Fail(StoreErrorKind::Unknown)] {
        let store = FaultyStore::new(MemoryStore::new());
        let first = numbers(store.clone()).await;
        let began = Instant::now();
        let id = machine_of(&first);
        occupy_all_but(store.inner(), id).await;
        store.always(Op::Replace, fault);

        sleep_until(began + LEASE - MILLISECOND).await;
        assert!(first.issue(&USER).is_ok());
        sleep(MILLISECOND).await;
        assert!(is_unavailable(&first.issue(&USER)));
        assert!(builder(store.clone()).build().await.is_err());
        sleep_until(began + LEASE + SKEW - MILLISECOND).await;
        assert!(builder(store.clone()).build().await.is_err());
        sleep(MILLISECOND).await;
        let second = numbers(store.clone()).await;
        assert_eq!(machine_of(&second), id);

        // The first handle learns that it has lost the id. No other id is free.
        store.heal();
        sleep(LEASE).await;
        assert!(is_unavailable(&first.issue(&USER)));
        assert_eq!(machine_of(&second), id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_suspended_for_longer_than_its_lease_issues_nothing_when_it_resumes() {
    let numbers = numbers(MemoryStore::new()).await;
    assert!(numbers.issue(&USER).is_ok());
    // The first poll moves the clock. The renewal has not run yet.
    let mut wakes_up = pin!(advance(LEASE));
    let _ = wakes_up
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(is_unavailable(&numbers.issue(&USER)));
    // The record is still in the store, so the lease is renewed.
    sleep(MILLISECOND).await;
    assert!(numbers.issue(&USER).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_recovers_before_the_record_expires_renews_the_same_id() {
    let store = FaultyStore::new(MemoryStore::new());
    let numbers = numbers(store.clone()).await;
    let id = machine_of(&numbers);
    store.always_all(Fault::Fail(StoreErrorKind::Unknown));
    sleep(LEASE + SKEW / 2).await;
    assert!(is_unavailable(&numbers.issue(&USER)));
    store.heal();
    sleep(LEASE / 2).await;
    assert_eq!(machine_of(&numbers), id);
}

#[tokio::test(start_paused = true)]
async fn if_the_record_of_an_id_was_removed_another_id_is_leased() {
    let store = MemoryStore::new();
    let numbers = numbers(store.clone()).await;
    let id = machine_of(&numbers);
    let entry = store.get(&key_of(id)).await.unwrap().unwrap();
    store.remove(&key_of(id), &entry.value).await.unwrap();
    let theirs = Bytes::from("theirs");
    store.claim(&key_of(id), &theirs, LEASE * 10).await.unwrap();
    sleep(LEASE / 2).await;
    assert_ne!(machine_of(&numbers), id);
    let entry = store.get(&key_of(id)).await.unwrap().unwrap();
    assert_eq!(entry.value, theirs, "the record of the other owner stays");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_costs_neither_an_id_nor_a_lease() {
    let store = FaultyStore::new(MemoryStore::new());
    store.next(Op::Claim, Fault::LoseReply);
    let numbers = numbers(store.clone()).await;
    assert_eq!(
        store.inner().len(),
        1,
        "the repeated claim finds its own record"
    );
    let id = machine_of(&numbers);

    for _ in 0..3 {
        store.next(Op::Replace, Fault::LoseReply);
        store.next(Op::Replace, Fault::ApplyThenHang);
    }
    sleep(LEASE * 3).await;
    assert_eq!(store.remaining_faults(), 0);
    assert_eq!(machine_of(&numbers), id);
    assert_eq!(store.inner().len(), 1);

    store.next(Op::Replace, Fault::LoseReply);
    drop(numbers);
    sleep(MILLISECOND * 100).await;
    assert_eq!(store.remaining_faults(), 0);
    let remaining = store.get(&key_of(id)).await.unwrap().unwrap().ttl.unwrap();
    assert!(remaining <= SKEW, "{remaining:?}");
}

/// The reply to the claim is late. The record may exist since the first send, so the lease starts at the first send.
#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_the_first_send() {
    let store = FaultyStore::new(MemoryStore::new());
    store.next(Op::Claim, Fault::ApplyThenHang);
    let began = Instant::now();
    let numbers = numbers(store.clone()).await;
    assert!(began.elapsed() >= Duration::from_millis(250));
    store.always(Op::Replace, Fault::Hang);
    sleep_until(began + LEASE - MILLISECOND).await;
    assert!(numbers.issue(&USER).is_ok());
    sleep(MILLISECOND).await;
    assert!(is_unavailable(&numbers.issue(&USER)));
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_fails_the_build() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let error = builder(store).build().await.unwrap_err();
    let text = format!("{error:?}");
    assert!(
        text.starts_with("no machine id for the order numbers `orders`: the store did not answer"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failing_renewal_and_a_lost_id_are_reported_once_and_each_refusal_is_reported() {
    let events: Arc<Mutex<Vec<EventKind>>> = Arc::default();
    let recorded = Arc::clone(&events);
    let store = FaultyStore::new(MemoryStore::new());
    let idempotency = Idempotency::builder(store.clone())
        .observer(move |event: &Event<'_>| recorded.lock().unwrap().push(event.kind()))
        .build()
        .unwrap();
    let numbers = OrderNumbers::new(&idempotency, "orders", SECRET)
        .await
        .unwrap();
    let _ = numbers.issue(&USER).unwrap();
    events.lock().unwrap().clear();
    store.always_all(Fault::Fail(StoreErrorKind::Unknown));
    sleep(LEASE + MILLISECOND).await;
    assert_eq!(*events.lock().unwrap(), [EventKind::RenewalFailed]);
    assert!(is_unavailable(&numbers.issue(&USER)));
    assert_eq!(
        events.lock().unwrap().last(),
        Some(&EventKind::OperationFailed)
    );
    // Now the record has expired.
    sleep(SKEW).await;
    store.heal();
    sleep(LEASE).await;
    let expected = [
        EventKind::RenewalFailed,
        EventKind::OperationFailed,
        EventKind::RenewalFailed,
    ];
    assert_eq!(*events.lock().unwrap(), expected);
    assert!(numbers.issue(&USER).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_does_not_end_the_renewal() {
    let store = Panicking::default();
    let numbers = numbers(store.clone()).await;
    store.panics.store(true, Ordering::SeqCst);
    sleep(LEASE / 2).await;
    store.panics.store(false, Ordering::SeqCst);
    sleep(LEASE * 10).await;
    assert!(numbers.issue(&USER).is_ok());
}

/// Panics at every renewal while the flag is set.
#[derive(Debug, Clone, Default)]
struct Panicking {
    store: MemoryStore,
    panics: Arc<AtomicBool>,
}

#[async_trait]
impl store::Wrap for Panicking {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.store
    }

    async fn replace(
        &self,
        key: &str,
        expected: &Bytes,
        value: &Bytes,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        assert!(
            !self.panics.load(Ordering::SeqCst),
            "the test injects this panic"
        );
        self.store.replace(key, expected, value, ttl).await
    }
}
