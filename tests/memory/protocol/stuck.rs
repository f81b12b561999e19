//! A key whose holder does not renew its lease is one line at INFO, and so is the call that takes over.

use std::time::{Duration, SystemTime};

use idempotence::testkit::CountingStore;
use idempotent_runtime::store::{Bytes, Store as _};
use idempotent_runtime::{Idempotency, MemoryStore, Policy, Release, Renew};
use tokio::time::{advance, sleep, timeout};

use crate::protocol::guarded::{Guarded, forever, secs};
use crate::protocol::observed::Observed;
use support::log_capture::LogCapture;

/// The lease of 30 s is renewed every 10 s, and the store keeps the record for 33 s.
fn policy() -> Policy {
    Policy::new(secs(60))
}

/// A key that another process has claimed `age` ago and last renewed `silent` ago.
async fn held(guarded: &Guarded, age: u64, silent: u64) {
    let since = humantime::format_rfc3339_millis(SystemTime::now() - secs(age));
    let record = format!(
        "idem1 R owner=00000000000000000000000000000001 payload=- since={since} for=33000ms by=web-3:4242 codec=-\n"
    );
    let (key, record, remaining) = (guarded.key(1), Bytes::from(record), secs(33 - silent));
    guarded.store.claim(&key, &record, remaining).await.unwrap();
}

async fn refused(guarded: &Guarded) {
    guarded.run(1, async { Ok(()) }).await.unwrap_err();
    guarded.settled().await;
}

fn observed(guarded: &Guarded) -> (Guarded, Observed) {
    let observed = Observed::default();
    (observed.on(guarded), observed)
}

#[tokio::test(start_paused = true)]
async fn duplicates_of_a_holder_that_does_not_renew_write_one_line_at_info() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    held(&guarded, 25, 25).await;
    let log = LogCapture::start();
    store.reset();
    for _ in 0..10 {
        refused(&guarded).await;
        advance(Duration::from_millis(700)).await;
    }
    assert_eq!((store.counts().claim, store.counts().get), (10, 1));
    let lines = log.at("INFO");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    for part in [
        "the holder of the key does not renew its lease: it was claimed at 20",
        "last renewed or claimed 25.0s ago; it becomes free in 8.0s",
        "endpoint=\"test.pay\" key=",
        "outcome=\"stuck\"",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!line.contains("web-3"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_dead_holder_says_when_the_store_frees_the_key() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    held(&guarded, 25, 25).await;
    for free_in in [8, 7, 6] {
        let refused = guarded.run(1, async { Ok(()) }).await.unwrap_err();
        let error = refused.refusal();
        let duplicate = error.duplicate().unwrap();
        assert_eq!(duplicate.free_in(), Some(secs(free_in)));
        assert_eq!(error.retry_after(), Some(secs(free_in)));
        advance(secs(1)).await;
    }
    assert_eq!(store.counts().get, 1);
}

#[tokio::test(start_paused = true)]
async fn the_line_names_the_holder_if_the_handle_says_so() {
    let guarded = Guarded::in_memory(policy());
    let builder = Idempotency::builder(std::sync::Arc::clone(&guarded.store));
    let guarded = Guarded {
        idempotency: builder.log_holder(true).build().unwrap(),
        ..guarded
    };
    held(&guarded, 25, 25).await;
    let log = LogCapture::start();
    refused(&guarded).await;
    assert!(log.at("INFO")[0].contains("Z by web-3:4242, and"));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_renews_or_need_not_renew_yet_is_not_stuck() {
    for (policy, age, silent, asked) in [
        (policy(), 9, 9, 0),
        (policy(), 25, 5, 1),
        (policy(), 300, 9, 1),
        (policy().renew(Renew::No), 25, 25, 0),
        (policy().renew(Renew::Cap(secs(30))), 31, 31, 0),
        // Another version of the program, with a longer lease.
        (policy().lease(secs(20)), 25, 25, 1),
    ] {
        let store = CountingStore::new(MemoryStore::new());
        let (guarded, observed) = observed(&Guarded::on(store.clone(), policy));
        held(&guarded, age, silent).await;
        store.reset();
        refused(&guarded).await;
        assert_eq!(observed.take(), ["in_progress"], "{age} {silent}");
        assert_eq!(store.counts().get, asked, "{age} {silent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_never_releases_is_not_stuck() {
    let (guarded, observed) = observed(&Guarded::in_memory(
        Policy::new(secs(30)).release(Release::Never),
    ));
    held(&guarded, 25, 25).await;
    refused(&guarded).await;
    assert_eq!(observed.take(), ["taken"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_reports_the_stuck_key_and_takes_over() {
    let (guarded, observed) = observed(&Guarded::in_memory(policy().wait(secs(30))));
    held(&guarded, 25, 25).await;
    guarded.run(1, async { Ok(()) }).await.unwrap();
    assert_eq!(
        observed.take(),
        ["stuck", "took_over", "waited", "executed"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_call_after_the_lease_takes_over_once() {
    let (guarded, observed) = observed(&Guarded::in_memory(policy().release(Release::OnError)));
    held(&guarded, 25, 25).await;
    refused(&guarded).await;
    assert_eq!(observed.take(), ["stuck", "in_progress"]);
    sleep(secs(9)).await;
    guarded
        .run(1, async { Err::<(), ()>(()) })
        .await
        .unwrap_err();
    assert_eq!(observed.take(), ["took_over", "failed"]);
    guarded.run(1, async { Ok(()) }).await.unwrap();
    assert_eq!(observed.take(), ["executed"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_an_operator_frees_is_not_taken_over() {
    let (guarded, observed) = observed(&Guarded::in_memory(policy()));
    held(&guarded, 25, 25).await;
    refused(&guarded).await;
    let stuck = guarded.idempotency.peek("test.pay", &(1_u64,)).await;
    let stuck = stuck.unwrap().unwrap();
    assert!(guarded.idempotency.forget(&stuck).await.unwrap());
    guarded.run(1, async { Ok(()) }).await.unwrap();
    assert_eq!(observed.take(), ["stuck", "in_progress", "executed"]);
}

#[tokio::test(start_paused = true)]
async fn with_a_fence_the_call_that_takes_over_reports_it_in_every_process() {
    let guarded = Guarded::in_memory(policy().fence());
    let dropped = timeout(secs(1), guarded.run(1, forever())).await;
    assert!(dropped.is_err());
    sleep(secs(70)).await;
    let (elsewhere, observed) = observed(&guarded.elsewhere());
    elsewhere.run(1, async { Ok(()) }).await.unwrap();
    assert_eq!(observed.take(), ["took_over", "executed"]);
}
