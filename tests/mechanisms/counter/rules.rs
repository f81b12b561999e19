//! The rules of a counter, on paused time: in memory, and on a store with only the four required operations.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use idempotence::testkit::{CountingStore, Counts, Fault, FaultyStore, Op};
use idempotent_runtime::{
    ClientAction, Counter, Error, Event, EventKind, Idempotency, MemoryStore, RequestId, Store,
    StoreErrorKind,
};
use tokio::time::{Instant, advance};

use support::required_only::RequiredOnly;

const WINDOW: Duration = Duration::from_mins(10);

fn counter(store: impl Store, limit: u64) -> Counter {
    let idempotency = Idempotency::new(store);
    idempotency.counter("pages.submit", limit, WINDOW).unwrap()
}

/// The number of the next attempt, admitted or not.
async fn number(counter: &Counter) -> u64 {
    match counter.attempt("page").await {
        Ok(attempt) => attempt.number(),
        Err(Error::LimitReached(limited)) => limited.attempt(),
        Err(error) => panic!("{error:?}"),
    }
}

macro_rules! on_both {
    ($($test:ident)*) => {
        mod in_memory {
            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                super::$test(idempotent_runtime::MemoryStore::new()).await;
            })*
        }
        mod on_a_store_of_four_operations {
            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                super::$test(support::required_only::RequiredOnly(idempotent_runtime::MemoryStore::new())).await;
            })*
        }
    };
}

on_both! {
    attempts_are_numbered_and_attempts_above_the_limit_are_refused
    a_refused_attempt_is_counted_and_does_not_move_the_end_of_the_window
    a_window_ends_exactly_and_the_next_attempt_starts_a_new_one
    an_attempt_whose_reply_is_lost_is_counted_once
    a_dropped_attempt_leaves_a_complete_record_or_none
    things_users_and_names_are_counted_separately
    bytes_of_another_program_are_left_alone
}

async fn attempts_are_numbered_and_attempts_above_the_limit_are_refused(store: impl Store) {
    let counter = counter(store, 3);
    for expected in 1..=3 {
        let attempt = counter.attempt("page").await.unwrap();
        assert_eq!((attempt.number(), attempt.limit()), (expected, 3));
        assert_eq!(attempt.window_remaining(), WINDOW);
        assert_eq!(attempt.to_string(), format!("attempt {expected} of 3"));
    }
    for expected in 4..=5 {
        let error = counter.attempt("page").await.unwrap_err();
        assert_eq!(
            (error.code(), error.endpoint()),
            ("limit_reached", "pages.submit")
        );
        assert_eq!(error.client_action(), ClientAction::Wait);
        assert_eq!(error.retry_after(), Some(WINDOW));
        let Error::LimitReached(limited) = error else {
            panic!("{error:?}");
        };
        assert_eq!((limited.attempt(), limited.limit()), (expected, 3));
        assert_eq!(limited.retry_after(), WINDOW);
    }
}

async fn a_refused_attempt_is_counted_and_does_not_move_the_end_of_the_window(store: impl Store) {
    let counter = counter(store, 1);
    let begun = Instant::now();
    counter.attempt("page").await.unwrap();
    for minute in 1..10 {
        advance(Duration::from_mins(1)).await;
        let error = counter.attempt("page").await.unwrap_err();
        assert_eq!(
            error.retry_after(),
            WINDOW.checked_sub(begun.elapsed()),
            "minute {minute}"
        );
    }
    advance(Duration::from_mins(1)).await;
    assert_eq!(number(&counter).await, 1);
}

async fn a_window_ends_exactly_and_the_next_attempt_starts_a_new_one(store: impl Store) {
    let counter = counter(store, 5);
    for window in 0..3 {
        assert_eq!(number(&counter).await, 1, "window {window}");
        assert_eq!(number(&counter).await, 2, "window {window}");
        advance(WINDOW.saturating_sub(Duration::from_millis(1))).await;
        let attempt = counter.attempt("page").await.unwrap();
        assert_eq!(attempt.number(), 3, "window {window}");
        assert_eq!(attempt.window_remaining(), Duration::from_millis(1));
        advance(Duration::from_millis(1)).await;
    }
}

async fn an_attempt_whose_reply_is_lost_is_counted_once(store: impl Store) {
    let faulty = FaultyStore::new(store);
    let counter = counter(faulty.clone(), 5);
    for expected in 1..=4 {
        faulty.next(Op::Count, Fault::ApplyThenHang);
        faulty.next(Op::Count, Fault::LoseReply);
        assert_eq!(number(&counter).await, expected);
        assert_eq!(faulty.remaining_faults(), 0);
    }
}

async fn a_dropped_attempt_leaves_a_complete_record_or_none(store: impl Store) {
    let faulty = FaultyStore::new(store);
    let counter = counter(faulty.clone(), 5);
    let mut expected = 1;
    for (fault, counted) in [(Fault::Hang, 0), (Fault::ApplyThenHang, 1)] {
        faulty.next(Op::Count, fault);
        let tick = Duration::from_millis(1);
        let dropped = tokio::time::timeout(tick, counter.attempt("page")).await;
        assert!(dropped.is_err());
        let attempt = counter.attempt("page").await.unwrap();
        assert_eq!(attempt.number(), expected + counted);
        expected = attempt.number() + 1;
    }
}

async fn things_users_and_names_are_counted_separately(store: impl Store) {
    let store: Arc<dyn Store> = Arc::new(store);
    let pages = counter(Arc::clone(&store), 5);
    let codes = Idempotency::new(store)
        .counter("codes.send", 5, WINDOW)
        .unwrap();
    for expected in 1..=2 {
        for thing in [(7, "a"), (7, "b"), (8, "a")] {
            assert_eq!(pages.attempt(&thing).await.unwrap().number(), expected);
            assert_eq!(codes.attempt(&thing).await.unwrap().number(), expected);
        }
    }
    // Things that are equal as key parts are the same thing.
    let id = RequestId::new("a").unwrap();
    assert_eq!(pages.attempt(&(7_u8, id)).await.unwrap().number(), 3);
}

async fn bytes_of_another_program_are_left_alone(store: impl Store) {
    let store: Arc<dyn Store> = Arc::new(store);
    let counter = counter(Arc::clone(&store), 5);
    let (key, foreign) = (key_of("page"), Bytes::from("3"));
    store.claim(&key, &foreign, WINDOW).await.unwrap();
    let error = counter.attempt("page").await.unwrap_err();
    assert_eq!(error.code(), "foreign_record");
    let text = error.to_string();
    assert!(
        text.contains("has other bytes under the key than a counter"),
        "{text}"
    );
    assert!(text.contains("remove the key"), "{text}");
    assert_eq!(store.get(&key).await.unwrap().unwrap().value, foreign);
}

/// The key of a thing with the default handle.
fn key_of(thing: &str) -> String {
    let fingerprint = idempotent_runtime::fingerprint::Fingerprint::of(&(thing,)).unwrap();
    format!("idem:#count:pages.submit:{fingerprint}")
}

#[tokio::test(start_paused = true)]
async fn an_attempt_costs_one_operation_of_the_store() {
    let counting = CountingStore::new(MemoryStore::new());
    let counter = counter(counting.clone(), 2);
    assert_eq!(counting.counts(), Counts::default());
    for attempts in 1..=4 {
        number(&counter).await;
        assert_eq!(
            (counting.counts().count, counting.counts().total()),
            (attempts, attempts)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_costs_two_of_the_four_operations() {
    let counting = CountingStore::new(MemoryStore::new());
    let counter = counter(RequiredOnly(counting.clone()), 2);
    number(&counter).await;
    assert_eq!((counting.counts().get, counting.counts().claim), (1, 1));
    counting.reset();
    number(&counter).await;
    // A store that does not implement `exchange` reads and replaces.
    assert_eq!((counting.counts().get, counting.counts().replace), (2, 1));
}

/// On a store that does not implement `exchange`, every attempt writes the window again.
#[tokio::test(start_paused = true)]
async fn the_duration_of_the_attempts_does_not_move_the_end_of_the_window() {
    let slow = FaultyStore::new(MemoryStore::new());
    let (latency, window) = (Duration::from_millis(10), Duration::from_secs(1));
    slow.always(Op::Get, Fault::Delay(latency));
    slow.always(Op::Replace, Fault::Delay(latency));
    let store = RequiredOnly(slow);
    let begun = Instant::now();
    let mut attempts = 0;
    while store.count("key", attempts, window).await.unwrap().attempt > 1 || attempts == 0 {
        attempts += 1;
        assert!(begun.elapsed() < window * 2, "{attempts} attempts");
    }
    // The first attempt reads before the window starts, and the last attempt reads after it has ended.
    let lasted = begun.elapsed().saturating_sub(latency);
    assert!(
        lasted >= window && lasted <= window + latency * 4,
        "{lasted:?}"
    );
    assert!(attempts > 20);
}

#[tokio::test(start_paused = true)]
async fn no_input_of_a_client_is_in_a_key_or_an_error() {
    let store = MemoryStore::new();
    let counter = counter(store.clone(), 1);
    let pages = [
        "session:42",
        "*",
        "idem:#count:pages.submit:x",
        "a\0b\n",
        "",
    ];
    for (others, page) in pages.into_iter().enumerate() {
        counter.attempt(page).await.unwrap();
        // There is one key for each thing, and it has a digest.
        assert_eq!(store.len(), others + 1);
        assert!(
            store.get(&key_of(page)).await.unwrap().is_some(),
            "{page:?}"
        );
        let error = counter.attempt(page).await.unwrap_err().to_string();
        assert!(page.len() < 2 || !error.contains(page), "{error}");
        assert!(!error.contains(&key_of(page)[25..]), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_one_event() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&events);
    let faulty = FaultyStore::new(MemoryStore::new());
    let idempotency = Idempotency::builder(faulty.clone())
        .observer(move |event: &Event<'_>| recorded.lock().unwrap().push(event.kind()))
        .build()
        .unwrap();
    let counter = idempotency.counter("pages.submit", 1, WINDOW).unwrap();
    counter.attempt("page").await.unwrap();
    counter.attempt("page").await.unwrap_err();
    faulty.always_all(Fault::Fail(StoreErrorKind::NotApplied));
    let error = counter.attempt("page").await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let kinds = [
        EventKind::Counted,
        EventKind::LimitReached,
        EventKind::OperationFailed,
    ];
    assert_eq!(*events.lock().unwrap(), kinds);
}

#[tokio::test(start_paused = true)]
async fn counters_with_different_limits_count_together() {
    let store = MemoryStore::new();
    let [strict, lax] = [1, 10].map(|limit| counter(store.clone(), limit));
    strict.attempt("page").await.unwrap();
    assert_eq!(lax.attempt("page").await.unwrap().number(), 2);
    assert_eq!(number(&strict).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_full_store_counts_known_things_and_refuses_new_things() {
    let counter = counter(MemoryStore::with_capacity(1), 5);
    assert_eq!(number(&counter).await, 1);
    assert!(
        counter
            .attempt("another page")
            .await
            .unwrap_err()
            .is_unavailable()
    );
    assert_eq!(number(&counter).await, 2);
    advance(WINDOW).await;
    counter.attempt("another page").await.unwrap();
}

#[test]
fn invalid_settings_are_refused_with_all_their_mistakes() {
    let idempotency = Idempotency::new(MemoryStore::new());
    let long = "a".repeat(129);
    let allowed = "use 1 to 128 of `A-Z a-z 0-9 . _ -`";
    for (name, limit, window, mistakes) in [
        ("", 1, WINDOW, format!("the name is empty; {allowed}")),
        (
            "pages submit",
            1,
            WINDOW,
            format!("the name has the character ' '; {allowed}"),
        ),
        (
            "idem:x",
            1,
            WINDOW,
            format!("the name has the character ':'; {allowed}"),
        ),
        (
            &long,
            1,
            WINDOW,
            format!("the name is longer than 128 bytes; {allowed}"),
        ),
        (
            "pages",
            0,
            WINDOW,
            "`limit` must be at least 1, got 0".to_owned(),
        ),
        (
            "pages",
            1,
            Duration::ZERO,
            "`window` must be at least 1ms, got 0ns".to_owned(),
        ),
        (
            "pages/x",
            0,
            Duration::from_micros(999),
            format!(
                "the name has the character '/'; {allowed}; `limit` must be at least 1, got 0; \
                 `window` must be at least 1ms, got 999µs"
            ),
        ),
    ] {
        let error = idempotency
            .counter(name.to_owned(), limit, window)
            .unwrap_err();
        let shown = &name[..name.len().min(128)];
        assert_eq!(
            error.to_string(),
            format!("invalid counter `{shown}`: {mistakes}")
        );
    }
    let missing = Counter::builder(&idempotency, "pages").build().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "invalid counter `pages`: `limit` is missing: call `.limit(…)`; `window` is missing: call `.window(…)`"
    );
    idempotency
        .counter("pages", 1, Duration::from_millis(1))
        .unwrap();
    idempotency
        .counter("pages", u64::MAX, Duration::MAX)
        .unwrap();
}
