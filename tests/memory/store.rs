//! The memory store: the conformance suite, and its special properties.

use std::time::Duration;

use bytes::Bytes;
use idempotent_runtime::store::{Claim, Swap};
use idempotent_runtime::{MemoryStore, Store, StoreErrorKind};
use tokio::time::advance;

mod suite {
    idempotence::testkit::conformance!(async { idempotent_runtime::MemoryStore::new() });
}

mod suite_with_a_capacity {
    use idempotent_runtime::MemoryStore;

    idempotence::testkit::conformance!(async { MemoryStore::with_capacity(100) });
}

const VALUE: Bytes = Bytes::from_static(b"value");
const OTHER: Bytes = Bytes::from_static(b"other");
const TTL: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_nanos(1);

async fn claim(store: &MemoryStore, key: &str) -> Result<Claim, StoreErrorKind> {
    let claim = store.claim(key, &VALUE, TTL).await;
    claim.map_err(|error| error.kind())
}

#[tokio::test(start_paused = true)]
async fn a_record_expires_at_its_exact_instant() {
    let store = MemoryStore::new();
    claim(&store, "key").await.unwrap();
    let entry = store.get("key").await.unwrap().unwrap();
    assert_eq!(entry.ttl, Some(TTL));
    advance(Duration::from_millis(29_999)).await;
    let taken = store.claim("key", &OTHER, TTL).await.unwrap();
    assert_eq!(taken, Claim::Taken(VALUE));
    assert_eq!(store.len(), 1);
    advance(Duration::from_millis(1)).await;
    assert_eq!(store.get("key").await.unwrap(), None);
    assert_eq!(store.remove("key", &VALUE).await.unwrap(), Swap::Absent);
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ttl_is_at_least_a_millisecond() {
    let store = MemoryStore::new();
    for ttl in [Duration::ZERO, TICK] {
        store.claim("key", &VALUE, ttl).await.unwrap();
        assert_eq!(store.len(), 1);
        advance(Duration::from_millis(1)).await;
        assert_eq!(store.len(), 0);
    }
    store.claim("key", &VALUE, Duration::MAX).await.unwrap();
    assert_eq!(store.len(), 1);
}

#[tokio::test]
async fn a_full_store_refuses_new_keys_and_keeps_live_records() {
    let store = MemoryStore::with_capacity(3);
    for key in ["a", "b", "c"] {
        assert_eq!(claim(&store, key).await, Ok(Claim::Claimed));
    }
    assert_eq!(claim(&store, "d").await, Err(StoreErrorKind::Full));
    // Stored records can still be read, replaced and renewed.
    assert_eq!(claim(&store, "a").await, Ok(Claim::Claimed));
    let taken = store.claim("b", &OTHER, TTL).await.unwrap();
    assert_eq!(taken, Claim::Taken(VALUE));
    let swap = store.replace("c", &VALUE, &OTHER, TTL).await.unwrap();
    assert_eq!(swap, Swap::Done);
    assert_eq!(store.len(), 3);
    store.remove("a", &VALUE).await.unwrap();
    assert_eq!(claim(&store, "d").await, Ok(Claim::Claimed));
    assert_eq!(claim(&store, "e").await, Err(StoreErrorKind::Full));
}

#[tokio::test(start_paused = true)]
async fn a_full_store_reclaims_what_expired() {
    let store = MemoryStore::with_capacity(1000);
    for key in 0..1000 {
        claim(&store, &key.to_string()).await.unwrap();
    }
    assert_eq!(claim(&store, "more").await, Err(StoreErrorKind::Full));
    advance(TTL).await;
    for key in 1000..2000 {
        let claimed = claim(&store, &key.to_string()).await;
        assert_eq!(claimed, Ok(Claim::Claimed), "{key}");
    }
    assert_eq!(store.len(), 1000);
    assert_eq!(claim(&store, "more").await, Err(StoreErrorKind::Full));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_capacity_is_exact_among_threads() {
    let store = MemoryStore::with_capacity(500);
    let claiming = (0..8).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut claimed = 0;
            for key in 0..200 {
                let claim = claim(&store, &format!("{task}:{key}")).await;
                claimed += usize::from(claim.is_ok());
            }
            claimed
        })
    });
    let mut claimed = 0;
    for task in claiming.collect::<Vec<_>>() {
        claimed += task.await.unwrap();
    }
    assert_eq!((claimed, store.len()), (500, 500));
}

#[tokio::test]
async fn a_capacity_of_zero_refuses_everything() {
    let store = MemoryStore::with_capacity(0);
    assert_eq!(claim(&store, "key").await, Err(StoreErrorKind::Full));
}

#[tokio::test]
async fn clones_share_records_and_debug_has_no_contents() {
    let store = MemoryStore::with_capacity(7);
    claim(&store.clone(), "secret-key").await.unwrap();
    let text = format!("{store:?}");
    assert_eq!(text, "MemoryStore { len: 1, capacity: 7 }");
}
