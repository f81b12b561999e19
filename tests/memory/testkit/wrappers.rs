//! Tests of the store that injects faults and the store that counts.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::store::{self, Durability, Finding, Level, Swap, async_trait};
use idempotent_runtime::{MemoryStore, Store, StoreErrorKind};
use tokio::time::{advance, timeout};

use crate::testkit::broken_hints::{BrokenHints, HintMistake};

const VALUE: Bytes = Bytes::from_static(b"value");
const DONE: Bytes = Bytes::from_static(b"done");
const TTL: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

async fn stored(store: &impl Store) -> Option<Bytes> {
    store.get("key").await.unwrap().map(|entry| entry.value)
}

#[tokio::test(start_paused = true)]
async fn a_failing_operation_is_not_applied() {
    let store = FaultyStore::new(MemoryStore::new());
    for kind in [
        StoreErrorKind::NotApplied,
        StoreErrorKind::Full,
        StoreErrorKind::Unknown,
    ] {
        store.next(Op::Claim, Fault::Fail(kind));
        let error = store.claim("key", &VALUE, TTL).await.unwrap_err();
        assert_eq!(error.kind(), kind);
    }
    assert_eq!(stored(&store).await, None);
    assert_eq!(store.remaining_faults(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_operation_with_a_lost_reply_is_applied() {
    let store = FaultyStore::new(MemoryStore::new());
    for op in [Op::Claim, Op::Replace, Op::Remove] {
        store.next(op, Fault::LoseReply);
    }
    assert_eq!(store.remaining_faults(), 3);
    let lost = store.claim("key", &VALUE, TTL).await.unwrap_err();
    assert_eq!(lost.kind(), StoreErrorKind::Unknown);
    assert_eq!(stored(&store).await, Some(VALUE));
    store.replace("key", &VALUE, &DONE, TTL).await.unwrap_err();
    assert_eq!(stored(&store).await, Some(DONE));
    store.remove("key", &DONE).await.unwrap_err();
    assert_eq!(stored(&store).await, None);
}

#[tokio::test(start_paused = true)]
async fn hanging_operations_never_answer() {
    let store = FaultyStore::new(MemoryStore::new());
    for (fault, expected) in [(Fault::Hang, None), (Fault::ApplyThenHang, Some(VALUE))] {
        store.always(Op::Claim, fault);
        timeout(SECOND, store.claim("key", &VALUE, TTL))
            .await
            .unwrap_err();
        assert_eq!(stored(&store).await, expected);
    }
    store.heal();
    store.claim("key", &VALUE, TTL).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_delayed_operation_is_applied_only_if_it_is_waited_for() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always(Op::Claim, Fault::Delay(SECOND));
    timeout(SECOND / 2, store.claim("key", &VALUE, TTL))
        .await
        .unwrap_err();
    advance(SECOND).await;
    assert_eq!(stored(&store).await, None);
    store.claim("key", &VALUE, TTL).await.unwrap();
    assert_eq!(stored(&store).await, Some(VALUE));
}

#[tokio::test(start_paused = true)]
async fn a_late_operation_is_applied_after_its_sender_gave_up() {
    let store = FaultyStore::new(MemoryStore::new());
    store.next(Op::Claim, Fault::ApplyLate(SECOND));
    let error = store.claim("key", &VALUE, TTL).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unknown);
    assert_eq!(stored(&store).await, None);
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(stored(&store).await, Some(VALUE));
}

#[tokio::test]
async fn faults_of_next_come_before_the_fault_of_always() {
    let store = FaultyStore::new(MemoryStore::new());
    store.always(Op::Get, Fault::Fail(StoreErrorKind::NotApplied));
    store
        .clone()
        .next(Op::Get, Fault::Fail(StoreErrorKind::Full));
    for kind in [
        StoreErrorKind::Full,
        StoreErrorKind::NotApplied,
        StoreErrorKind::NotApplied,
    ] {
        assert_eq!(store.get("key").await.unwrap_err().kind(), kind);
    }
    store.heal();
    assert_eq!(stored(&store).await, None);
    assert_eq!(store.inner().len(), 0);
}

#[tokio::test]
async fn sends_are_counted_with_and_without_answers() {
    let inner: Arc<dyn Store> = Arc::new(FaultyStore::new(MemoryStore::new()));
    let store = CountingStore::new(inner);
    let shared = store.clone();
    store.claim("key", &VALUE, TTL).await.unwrap();
    drop(store.claim("never polled", &VALUE, TTL));
    shared.replace("key", &VALUE, &VALUE, TTL).await.unwrap();
    shared.replace("key", &VALUE, &DONE, TTL).await.unwrap();
    store.remove("key", &DONE).await.unwrap();
    store.inner().get("key").await.unwrap();
    let counts = store.counts();
    assert_eq!((counts.claim, counts.replace), (1, 2));
    assert_eq!((counts.remove, counts.get, counts.total()), (1, 0, 4));
    store.reset();
    assert_eq!(shared.counts().total(), 0);
}

#[tokio::test]
async fn notifying_operations_are_counted_like_the_others() {
    let store = CountingStore::new(MemoryStore::new());
    store.claim("key", &VALUE, TTL).await.unwrap();
    let swap = store.replace_and_notify("key", &VALUE, &DONE, TTL).await;
    assert_eq!(swap.unwrap(), Swap::Done);
    let swap = store.remove_and_notify("key", &DONE).await;
    assert_eq!(swap.unwrap(), Swap::Done);
    assert!(store.subscribe("key").await.is_none());
    let counts = store.counts();
    assert_eq!((counts.replace, counts.remove), (1, 1));
    assert_eq!((counts.subscribe, counts.total()), (1, 4));
    store.reset();
    assert_eq!(store.counts().total(), 0);
}

#[tokio::test]
async fn notifying_operations_get_the_faults_of_the_others() {
    let store = FaultyStore::new(MemoryStore::new());
    store.claim("key", &VALUE, TTL).await.unwrap();
    for op in [Op::Replace, Op::Remove] {
        store.next(op, Fault::LoseReply);
    }
    let swap = store.replace_and_notify("key", &VALUE, &DONE, TTL).await;
    assert_eq!(swap.unwrap_err().kind(), StoreErrorKind::Unknown);
    assert_eq!(stored(&store).await, Some(DONE));
    let swap = store.remove_and_notify("key", &DONE).await;
    assert_eq!(swap.unwrap_err().kind(), StoreErrorKind::Unknown);
    assert_eq!(stored(&store).await, None);
}

#[tokio::test]
async fn wrappers_forward_hints() {
    let inside: Arc<dyn Store> = Arc::new(BrokenHints::new(HintMistake::None));
    let store = FaultyStore::new(CountingStore::new(inside));
    let mut hints = store.subscribe("key").await.unwrap();
    store.claim("key", &VALUE, TTL).await.unwrap();
    assert!(!hints.has_changed().unwrap());
    let swap = store.replace_and_notify("key", &VALUE, &DONE, TTL).await;
    assert_eq!(swap.unwrap(), Swap::Done);
    assert!(hints.has_changed().unwrap());
    hints.mark_unchanged();
    let swap = store.remove_and_notify("key", &DONE).await;
    assert_eq!(swap.unwrap(), Swap::Done);
    assert!(hints.has_changed().unwrap());
}

/// A store with its own durability and findings.
#[derive(Debug)]
struct Described(MemoryStore);

#[async_trait]
impl store::Wrap for Described {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    fn durability(&self) -> Durability {
        Durability::Sql
    }

    async fn examine(&self, key: &str, deadline: Duration) -> Vec<Finding> {
        vec![Finding::new(Level::Note, format!("{key} {deadline:?}"))]
    }
}

#[tokio::test]
async fn wrappers_forward_durability_and_findings() {
    let store = Arc::new(Described(MemoryStore::new()));
    let wrapped = CountingStore::new(FaultyStore::new(store));
    assert_eq!(wrapped.durability(), Durability::Sql);
    let findings = wrapped.examine("key", SECOND).await;
    assert_eq!(findings, [Finding::new(Level::Note, "key 1s")]);
    assert_eq!(MemoryStore::new().durability(), Durability::Process);
}
