//! `retry_after` of duplicates.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{Duplicate, Error, Idempotency, MemoryStore, Policy, SetupError};

use crate::protocol::guarded::{Guarded, millis, secs};

/// The error of a duplicate. The first call has run for `age`, and its record is stored for another `lasts`.
async fn duplicate_of(
    hints: Option<RangeInclusive<Duration>>,
    age: Duration,
    lasts: Duration,
) -> Duplicate {
    let store = MemoryStore::new();
    let builder = Idempotency::builder(store.clone());
    let idempotency = match hints {
        Some(hints) => builder.retry_hint(hints).build().unwrap(),
        None => builder.build().unwrap(),
    };
    let guarded = Guarded {
        idempotency,
        ..Guarded::on(store.clone(), Policy::new(secs(60)))
    };
    let since = humantime::format_rfc3339_millis(SystemTime::now() - age);
    let record = format!(
        "idem1 R owner=00000000000000000000000000000001 payload=- since={since} for={}ms by=web-3:4242 codec=-\n",
        lasts.as_millis()
    );
    let (key, record) = (guarded.key(1), Bytes::from(record));
    store.claim(&key, &record, lasts).await.unwrap();
    let refused = guarded.run(1, async { Ok(()) }).await.unwrap_err();
    let error = refused.refusal();
    assert_eq!(error.code(), "in_progress");
    let duplicate = error.duplicate().unwrap().clone();
    assert_eq!(error.retry_after(), Some(duplicate.retry_after()));
    duplicate
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_running_call_is_about_its_age() {
    let duplicate = duplicate_of(None, secs(3), secs(33)).await;
    assert!((secs(3)..secs(9)).contains(&duplicate.retry_after()));
    assert_eq!(duplicate.retry_after(), duplicate.age());
    let free_in = duplicate.free_in().unwrap();
    assert_eq!(free_in + duplicate.age(), secs(33));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_from_1_to_10_seconds_unless_the_handle_sets_limits() {
    for (age, guess) in [
        (millis(20), secs(1)),
        (secs(25), secs(10)),
        (secs(3600), secs(10)),
    ] {
        let duplicate = duplicate_of(None, age, secs(66)).await;
        assert_eq!(duplicate.retry_after(), guess, "{age:?}");
    }
    let hints = millis(100)..=millis(200);
    for age in [millis(300), secs(3600)] {
        let duplicate = duplicate_of(Some(hints.clone()), age, secs(33)).await;
        assert_eq!(duplicate.retry_after(), millis(200), "{age:?}");
    }
    let hints = secs(40)..=secs(40);
    let duplicate = duplicate_of(Some(hints), secs(1), secs(100)).await;
    assert_eq!(duplicate.retry_after(), secs(40));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_not_longer_than_the_key_stays_taken() {
    for (age, lasts) in [
        (millis(1), millis(500)),
        (secs(3600), millis(500)),
        (secs(8), secs(12)),
    ] {
        let duplicate = duplicate_of(None, age, lasts).await;
        assert_eq!(
            Some(duplicate.retry_after()),
            duplicate.free_in(),
            "{age:?}"
        );
        assert!(duplicate.retry_after() <= lasts, "{duplicate}");
    }
}

/// The lease of 30 s is renewed every 10 s, and a renewal that is on its way does not count.
#[tokio::test(start_paused = true)]
async fn free_in_counts_from_the_last_renewal_until_the_store_is_asked() {
    for (age, free_in) in [(5, 28), (10, 23), (15, 33), (48, 33)] {
        let duplicate = duplicate_of(None, secs(age), secs(33)).await;
        let difference = duplicate.free_in().unwrap().abs_diff(secs(free_in));
        assert!(difference < secs(1), "{age}: {duplicate}");
        assert_eq!(duplicate.retry_after(), duplicate.age().min(secs(10)));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_done_call_is_when_the_key_is_free() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)));
    guarded.run(1, async { Ok(()) }).await.unwrap();
    let refused = guarded.run(1, async { Ok(()) }).await.unwrap_err();
    let error = refused.refusal();
    let duplicate = error.duplicate().unwrap();
    assert_eq!(duplicate.free_in(), Some(duplicate.retry_after()));
    assert_eq!(duplicate.retry_after() + duplicate.age(), secs(60));
}

#[tokio::test]
async fn an_invalid_retry_hint_is_refused() {
    let build = |hints| -> Result<Idempotency, SetupError> {
        let builder = Idempotency::builder(MemoryStore::new());
        builder.retry_hint(hints).build()
    };
    for hints in [
        secs(0)..=secs(1),
        secs(10)..=secs(1),
        secs(1)..=secs(3601),
        secs(3601)..=secs(3602),
        Duration::from_micros(999)..=secs(1),
    ] {
        let error = build(hints.clone()).unwrap_err().to_string();
        assert!(error.contains("retry hint"), "{hints:?}: {error}");
    }
    for hints in [millis(1)..=secs(3600), secs(5)..=secs(5)] {
        assert!(build(hints.clone()).is_ok(), "{hints:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_the_same_process_gets_the_same_retry_after() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)));
    let body = async {
        let refused = guarded.run(1, async { Ok(()) }).await.unwrap_err();
        let Error::InProgress(duplicate) = refused.refusal() else {
            panic!("the first call runs");
        };
        assert!((secs(1)..secs(10)).contains(&duplicate.retry_after()));
        assert!(duplicate.free_in().unwrap() > secs(20), "{duplicate}");
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
}
