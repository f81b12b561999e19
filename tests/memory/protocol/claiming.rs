//! From the call to the first poll of its body.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::private::{Call, Endpoint};
use idempotent_runtime::store::{Claim, Wrap, async_trait};
use idempotent_runtime::{
    Error, Idempotency, MemoryStore, OnStoreError, Policy, Store, StoreError, StoreErrorKind,
};
use tokio::sync::Barrier;
use tokio::time::Instant;

use crate::protocol::guarded::{Guarded, forever, millis, secs, yielding};

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_concurrent_equal_calls_runs() {
    for round in 0..200 {
        let here = Guarded::in_memory(policy());
        let elsewhere = here.elsewhere();
        let (ran, start) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(16)));
        let calls = (0..16).map(|caller| {
            let guarded = if caller % 2 == 0 { &here } else { &elsewhere };
            let (guarded, ran, start) = (guarded.clone(), Arc::clone(&ran), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                let body = async {
                    ran.fetch_add(1, Ordering::SeqCst);
                    yielding(Ok(())).await
                };
                guarded
                    .run(round, body)
                    .await
                    .map_err(|failed| failed.refusal().is_duplicate())
            })
        });
        let mut refused = 0;
        for call in calls.collect::<Vec<_>>() {
            match call.await.unwrap() {
                Ok(()) => {}
                Err(duplicate) => refused += usize::from(duplicate),
            }
        }
        assert_eq!((ran.load(Ordering::SeqCst), refused), (1, 15));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_reply_was_lost_recognizes_its_claim() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::LoseReply);
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_lease_counts_from_the_first_send_that_may_have_been_applied() {
    let store = FaultyStore::new(MemoryStore::new());
    let policy = Policy::new(secs(60))
        .lease(secs(10))
        .renew(idempotent_runtime::Renew::No);
    let guarded = Guarded::on(store.clone(), policy);
    store.next(Op::Claim, Fault::LoseReply);
    let begun = Instant::now();
    guarded.run(1, forever()).await.unwrap_err();
    assert!(
        begun.elapsed() <= secs(10) + millis(5),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_send_is_tried_again() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    store.next(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    guarded.run(1, yielding(Ok(()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hanging_store_fails_the_call_after_the_deadline() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Claim, Fault::Hang);
    let begun = Instant::now();
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert!(refused.is_unavailable(), "{refused}");
    assert_eq!(
        begun.elapsed().as_millis() / 10,
        100,
        "{:?}",
        begun.elapsed()
    );
    assert!(!refused.is_duplicate());
    assert!(std::error::Error::source(&refused).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_claim_is_removed() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Claim, Fault::LoseReply);
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert!(refused.is_unavailable());
    guarded.settled().await;
    assert_eq!(guarded.entry(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_refused_attempt_does_not_hide_an_earlier_attempt_that_may_be_applied() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::LoseReply);
    store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert!(refused.is_unavailable());
    guarded.settled().await;
    assert_eq!(guarded.entry(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_its_lease_runs_no_body_and_is_removed() {
    for earlier in [None, Some(Fault::LoseReply)] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy().lease(millis(100)));
        if let Some(earlier) = earlier {
            store.next(Op::Claim, earlier);
        }
        store.next(Op::Claim, Fault::Delay(millis(200)));
        let body = async { panic!("the body runs") };
        let refused = guarded.run::<()>(1, body).await.unwrap_err().refusal();
        assert!(refused.is_unavailable(), "{refused}");
        assert_eq!(store.remaining_faults(), 0);
        guarded.settled().await;
        assert_eq!(guarded.entry(1).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_recognizes_its_claim_in_a_store_that_has_become_full() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Claim, Fault::LoseReply);
    store.always(Op::Claim, Fault::Fail(StoreErrorKind::Full));
    assert_eq!(guarded.run(1, yielding(Ok(7))).await.unwrap(), 7);
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
}

#[test]
fn outside_a_runtime_a_failed_attempt_is_not_repeated() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    let run = || guarded.run(1, async { Ok(7) }).now_or_never();

    store.next(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    let refused = run().expect("the call ends at once").unwrap_err().refusal();
    assert!(refused.is_unavailable(), "{refused}");

    store.next(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    assert_eq!(run().expect("the call ends at once").unwrap(), 7);
    let refused = run().expect("the call ends at once").unwrap_err().refusal();
    assert_eq!(refused.code(), "in_progress");
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_new_keys_and_answers_duplicates() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    guarded.run(1, async { Ok(()) }).await.unwrap();
    store.always(Op::Claim, Fault::Fail(StoreErrorKind::Full));
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
    let refused = guarded.run(2, forever()).await.unwrap_err().refusal();
    assert!(refused.is_unavailable());
}

#[tokio::test(start_paused = true)]
async fn a_misconfigured_store_refuses_the_call_even_with_on_store_error_run() {
    let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
    let policy = policy().on_store_error(OnStoreError::Run);
    let guarded = Guarded::on(store.clone(), policy);
    store.always(Op::Claim, Fault::Fail(StoreErrorKind::Misconfigured));
    let begun = Instant::now();
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "store_misconfigured");
    assert_eq!(begun.elapsed(), millis(0));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_record_is_an_error_and_stays() {
    let policy = policy().on_store_error(OnStoreError::Run);
    let guarded = Guarded::in_memory(policy);
    let foreign = Bytes::from_static(b"foreign");
    guarded
        .store
        .claim(&guarded.key(1), &foreign, secs(9))
        .await
        .unwrap();
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "foreign_record");
    assert!(!refused.is_duplicate());
    assert_eq!(guarded.entry(1).await.unwrap().value, foreign);
}

#[tokio::test(start_paused = true)]
async fn with_on_store_error_run_a_claim_without_answer_is_settled_later() {
    let store = FaultyStore::new(MemoryStore::new());
    let policy = policy().on_store_error(OnStoreError::Run);
    let guarded = Guarded::on(store.clone(), policy);
    store.always(Op::Claim, Fault::LoseReply);
    let body = async {
        store.heal();
        assert!(guarded.entry(1).await.is_some());
        Ok(7)
    };
    assert_eq!(guarded.run(1, body).await.unwrap(), 7);
    guarded.settled().await;
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn with_on_store_error_run_a_refused_claim_leaves_nothing_to_settle() {
    let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
    let guarded = Guarded::on(store.clone(), policy().on_store_error(OnStoreError::Run));
    store.always(Op::Claim, Fault::Fail(StoreErrorKind::NotApplied));
    assert_eq!(guarded.run(1, yielding(Ok(7))).await.unwrap(), 7);
    guarded.settled().await;
    store.heal();
    assert_eq!(guarded.entry(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_policy_is_refused_before_the_store_is_used() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(0)));
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "invalid_policy");
    assert_eq!(store.counts().claim, 0);
}

#[tokio::test]
async fn a_key_part_that_cannot_be_serialized_is_an_error_without_its_text() {
    struct Secret;
    impl serde::Serialize for Secret {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("4111 1111 1111 1111"))
        }
    }
    let idempotency = Idempotency::new(MemoryStore::new());
    let mut call = Call::new(Endpoint::named("pay"), policy(), Some(&idempotency));
    call.part(&Secret);
    call.part(&1);
    let refused = call.claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "invalid_key");
    assert!(!format!("{} {refused:?}", refused.error()).contains("4111"));
}

#[tokio::test]
async fn without_a_handle_a_call_is_refused() {
    let mut call = Call::new(Endpoint::named("pay"), policy(), None);
    call.part(&1);
    let refused = call.claim().await.unwrap_err();
    assert_eq!(refused.error().code(), "not_installed");
    assert_eq!(refused.error().endpoint(), "pay");
}

#[test]
fn an_error_is_two_words_wide() {
    assert_eq!(size_of::<Error>(), 2 * size_of::<usize>());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_client_repeated_is_recognized_although_the_store_is_full() {
    let store = FullAfterIt(MemoryStore::new());
    let guarded = Guarded::on(store, Policy::new(secs(60)).lease(secs(10)));
    guarded.run(1, async { Ok(()) }).await.unwrap();
}

/// Answers as if the client had repeated a claim after a lost reply, on a server that has become full.
#[derive(Debug)]
struct FullAfterIt(MemoryStore);

#[async_trait]
impl Wrap for FullAfterIt {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn claim(&self, key: &str, value: &Bytes, ttl: Duration) -> Result<Claim, StoreError> {
        self.0.claim(key, value, ttl).await?;
        Err(StoreError::new(StoreErrorKind::Full, "no room"))
    }
}
