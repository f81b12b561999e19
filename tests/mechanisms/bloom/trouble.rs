//! An unavailable, lost or missing filter costs only look-ups.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{Bloom, Event, EventKind, Hint, Idempotency, MemoryStore, StoreErrorKind};
use serde::{Serialize, Serializer};
use tokio::time::Instant;

use crate::bloom::table::Table;
use crate::bloom::{DAY, bloom};
use support::required_only::RequiredOnly;

/// Orders, and returns whether this was the first time and whether the order was looked up.
pub(crate) async fn order(bloom: &Bloom, table: &Table, order: u64) -> (bool, bool) {
    let mut looked_up = false;
    let look_up = async {
        looked_up = true;
        Ok::<_, Infallible>(table.select(order))
    };
    let insert = async {
        let Some(transaction) = table.insert(order).await else {
            return Ok(None);
        };
        transaction.commit();
        Ok(Some(()))
    };
    let Ok(inserted) = bloom.first_time(&order, look_up, insert).await;
    (inserted.is_some(), looked_up)
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_filter_costs_a_look_up_and_a_quarter_of_the_deadline() {
    for fault in [
        Fault::Fail(StoreErrorKind::Unknown),
        Fault::Fail(StoreErrorKind::NotApplied),
        Fault::Fail(StoreErrorKind::Full),
        Fault::Fail(StoreErrorKind::Misconfigured),
        Fault::LoseReply,
        Fault::Hang,
        Fault::ApplyThenHang,
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let idempotency = Idempotency::new(store.clone());
        let bloom = idempotency.bloom("orders.no", 1000, 0.01, DAY).unwrap();
        let table = Table::default();
        store.always(Op::BloomInsert, fault);
        let begun = Instant::now();
        let error = bloom.hint(&7).await.unwrap_err();
        let misconfigured = fault == Fault::Fail(StoreErrorKind::Misconfigured);
        assert_eq!(error.is_unavailable(), !misconfigured, "{error}");
        assert_eq!(order(&bloom, &table, 42).await, (true, true), "{fault:?}");
        assert_eq!(order(&bloom, &table, 42).await, (false, true), "{fault:?}");
        assert!(begun.elapsed() <= Duration::from_millis(750), "{fault:?}");
        store.heal();
        assert!(!order(&bloom, &table, 42).await.0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_filter_costs_only_the_insert_that_fails() {
    let (before, table) = (bloom(MemoryStore::new(), 1000), Table::default());
    assert_eq!(order(&before, &table, 42).await, (true, false));
    let after = bloom(MemoryStore::new(), 1000);
    // The member is unseen again, so it is not looked up, and the insert finds it.
    assert_eq!(order(&after, &table, 42).await, (false, false));
    assert_eq!(order(&after, &table, 42).await, (false, true));
}

#[tokio::test(start_paused = true)]
async fn a_full_filter_costs_look_ups() {
    let (bloom, table) = (bloom(MemoryStore::new(), 10), Table::default());
    let mut looked_up = 0;
    for number in 0..1000 {
        let (first, asked) = order(&bloom, &table, number).await;
        assert!(first, "{number}");
        looked_up += usize::from(asked);
    }
    assert!(looked_up > 800, "{looked_up}");
    for number in 0..1000 {
        assert_eq!(order(&bloom, &table, number).await, (false, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_whose_reply_was_lost_is_perhaps_seen() {
    let store = FaultyStore::new(MemoryStore::new());
    let bloom = bloom(store.clone(), 1000);
    store.next(Op::BloomInsert, Fault::LoseReply);
    bloom.hint(&42).await.unwrap_err();
    assert_eq!(bloom.hint(&42).await.unwrap(), Hint::PerhapsSeen);
}

#[tokio::test(start_paused = true)]
async fn a_hint_and_a_decision_are_one_operation_each() {
    let store = CountingStore::new(MemoryStore::new());
    let (bloom, table) = (bloom(store.clone(), 1000), Table::default());
    let _ = bloom.hint(&1).await.unwrap();
    assert_eq!(store.counts().total(), 1);
    order(&bloom, &table, 42).await;
    order(&bloom, &table, 42).await;
    assert_eq!(store.counts().total(), 3);
    bloom.stats().await.unwrap();
    assert_eq!(store.counts().total(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_decision_and_a_failure_are_one_event_each() {
    let emitted = Arc::new(Mutex::new(Vec::new()));
    let store = FaultyStore::new(MemoryStore::new());
    let recorded = Arc::clone(&emitted);
    let idempotency = Idempotency::builder(store.clone())
        .observer(move |event: &Event<'_>| {
            assert_eq!(event.endpoint(), "orders.no");
            recorded.lock().unwrap().push(event.kind());
        })
        .build()
        .unwrap();
    let bloom = idempotency.bloom("orders.no", 1000, 0.01, DAY).unwrap();
    let table = Table::default();
    let events = || std::mem::take(&mut *emitted.lock().unwrap());
    order(&bloom, &table, 42).await;
    assert_eq!(events(), [EventKind::FirstSeen]);
    order(&bloom, &table, 42).await;
    assert_eq!(events(), [EventKind::SeenBefore]);
    let _ = bloom.hint(&42).await.unwrap();
    let _ = bloom.hint(&44).await.unwrap();
    assert_eq!(events(), [EventKind::PerhapsSeen, EventKind::FirstSeen]);
    store.always(Op::BloomInsert, Fault::Fail(StoreErrorKind::Unknown));
    bloom.hint(&42).await.unwrap_err();
    assert_eq!(events(), [EventKind::OperationFailed]);
    order(&bloom, &table, 43).await;
    assert_eq!(events(), [EventKind::OperationFailed, EventKind::FirstSeen]);
    store.always(Op::BloomStats, Fault::Fail(StoreErrorKind::Unknown));
    assert!(bloom.stats().await.unwrap_err().is_unavailable());
    assert_eq!(events(), [EventKind::OperationFailed]);
}

struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it cannot"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_be_serialized_was_perhaps_seen() {
    let bloom = bloom(MemoryStore::new(), 1000);
    let error = bloom.hint(&Unwritable).await.unwrap_err();
    assert_eq!(error.code(), "invalid_key");
    let inserted = bloom
        .first_time(&Unwritable, async { Ok::<_, Infallible>(true) }, async {
            Ok(Some(()))
        })
        .await;
    assert_eq!(inserted, Ok(None));
}

mod suite_of_a_store_without_filters {
    use super::{MemoryStore, RequiredOnly};

    idempotence::testkit::conformance!(async { RequiredOnly(MemoryStore::new()) });
}

#[tokio::test(start_paused = true)]
async fn in_a_store_without_filters_everything_was_perhaps_seen() {
    let (bloom, table) = (
        bloom(RequiredOnly(MemoryStore::new()), 1000),
        Table::default(),
    );
    assert!(bloom.stats().await.unwrap().is_none());
    assert_eq!(order(&bloom, &table, 42).await, (true, true));
    assert_eq!(order(&bloom, &table, 42).await, (false, true));
}
