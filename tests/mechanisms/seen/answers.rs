//! The answers of a set, its events and its operations.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::{Digest, Error, Event, Idempotency, MemoryStore, SeenSet, StoreErrorKind};
use serde::ser::{Error as _, Serialize, Serializer};
use tokio::time::advance;

use crate::seen::{DAY, added, is_first, set_of, set_on};

#[tokio::test]
async fn an_added_member_is_seen() {
    let seen = set_on(MemoryStore::new());
    assert!(is_first(&seen, "2026-11-21/42").await);
    for _ in 0..3 {
        assert!(!is_first(&seen.clone(), "2026-11-21/42").await);
    }
    assert!(is_first(&seen, "2026-11-21/43").await);
}

#[tokio::test]
async fn sets_with_one_name_are_one_set() {
    let store = Arc::new(MemoryStore::new());
    let here = Idempotency::new(Arc::clone(&store));
    let there = Idempotency::new(store);
    assert!(is_first(&set_of(&here, DAY), 42).await);
    assert!(!is_first(&set_of(&there, DAY), 42).await);
    let other = there.seen_set("orders.id", DAY).unwrap();
    assert!(is_first(&other, 42).await);
}

#[tokio::test]
async fn members_that_look_alike_are_different() {
    for digest in [Digest::Md5, Digest::Sha256] {
        let builder = Idempotency::builder(MemoryStore::new()).digest(digest);
        let seen = set_of(&builder.build().unwrap(), DAY);
        assert!(is_first(&seen, 42).await);
        assert!(is_first(&seen, "42").await);
        assert!(is_first(&seen, ("4", "2")).await);
        assert!(is_first(&seen, "").await);
        assert!(!is_first(&seen, "42").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_is_forgotten_after_the_retention() {
    let seen = set_on(MemoryStore::new());
    assert!(is_first(&seen, 42).await);
    advance(DAY.saturating_sub(Duration::from_millis(1))).await;
    assert!(!is_first(&seen, 42).await);
    advance(Duration::from_millis(1)).await;
    assert!(is_first(&seen, 42).await);
}

#[tokio::test(start_paused = true)]
async fn only_the_caller_that_added_a_member_takes_it_back() {
    let seen = set_on(MemoryStore::new());
    let first = added(&seen, 42).await;
    assert!(first.take_back().await.unwrap());
    assert!(
        !first.take_back().await.unwrap(),
        "the member was taken back before"
    );
    let second = added(&seen, 42).await;
    assert!(
        !first.take_back().await.unwrap(),
        "another caller has added the member"
    );
    assert!(!is_first(&seen, 42).await);
    advance(DAY).await;
    assert!(!second.take_back().await.unwrap(), "the member has expired");
}

#[tokio::test]
async fn a_member_stays_when_its_guard_is_dropped() {
    let seen = set_on(MemoryStore::new());
    drop(added(&seen, 42).await);
    assert!(!is_first(&seen, 42).await);
}

#[tokio::test]
async fn each_operation_is_one_operation_of_the_store() {
    let store = CountingStore::new(MemoryStore::new());
    let seen = set_on(store.clone());
    let first = added(&seen, 42).await;
    assert!(!is_first(&seen, 42).await);
    assert_eq!((store.counts().set_insert, store.counts().total()), (2, 2));
    assert!(first.take_back().await.unwrap());
    assert_eq!((store.counts().set_remove, store.counts().total()), (1, 3));
}

#[test]
fn invalid_settings_are_refused_with_all_their_mistakes() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let text = |name: &'static str, retention| {
        let refused = idempotency.seen_set(name, retention);
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        text("orders no", DAY),
        "invalid seen-set `orders no`: the name has the character ' '; use 1 to 128 of `A-Z a-z 0-9 . _ -`"
    );
    assert!(text("orders{no}", DAY).contains("`orders{no}`: the name has the character '{'"));
    assert_eq!(
        text("orders.no", Duration::from_micros(999)),
        "invalid seen-set `orders.no`: `retention` must be at least 1ms, got 999µs"
    );
    let refused = SeenSet::builder(&idempotency, "").build();
    assert_eq!(
        refused.unwrap_err().to_string(),
        "invalid seen-set ``: the name is empty; use 1 to 128 of `A-Z a-z 0-9 . _ -`; \
         `retention` is missing: call `.retention(…)`"
    );
}

struct Unencodable;

impl Serialize for Unencodable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("s3cret"))
    }
}

#[tokio::test]
async fn a_member_that_cannot_be_serialized_is_refused_before_anything_is_sent() {
    let store = CountingStore::new(MemoryStore::new());
    let error = set_on(store.clone()).first_time(&Unencodable).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::InvalidKey(_)), "{error:?}");
    assert!(!format!("{error:?}").contains("s3cret"));
    assert_eq!(store.counts().total(), 0);
}

#[tokio::test]
async fn each_operation_emits_its_outcome() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let store = FaultyStore::new(MemoryStore::new());
    let observer = {
        let events = Arc::clone(&events);
        move |event: &Event<'_>| {
            let key = event.key().map(|key| key.to_string().len());
            let text = format!("{} {} {key:?}", event.endpoint(), event.kind());
            events.lock().unwrap().push(text);
        }
    };
    let builder = Idempotency::builder(store.clone()).observer(observer);
    let seen = set_of(&builder.build().unwrap(), DAY);
    let first = added(&seen, 42).await;
    assert!(!is_first(&seen, 42).await);
    assert!(first.take_back().await.unwrap());
    for op in [Op::SetInsert, Op::SetRemove] {
        store.next(op, Fault::Fail(StoreErrorKind::Misconfigured));
    }
    let error = seen.first_time(&43).await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured(_)), "{error:?}");
    let error = first.take_back().await.unwrap_err();
    assert!(matches!(error, Error::Misconfigured(_)), "{error:?}");
    seen.first_time(&Unencodable).await.unwrap_err();
    let lines = [
        "orders.no first_seen Some(8)",
        "orders.no seen_before Some(8)",
        "orders.no taken_back Some(8)",
        "orders.no operation_failed Some(8)",
        "orders.no operation_failed Some(8)",
        "orders.no operation_invalid None",
    ];
    assert_eq!(*events.lock().unwrap(), lines);
}
