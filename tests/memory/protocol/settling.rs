//! Settling: from the end of the body to its record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::store::{Claim, Swap, Wrap};
use idempotent_runtime::{MemoryStore, Policy, Release, Settle, Store, StoreError, StoreErrorKind};
use tokio::time::{Instant, sleep, timeout};

use crate::protocol::guarded::{Failed, Guarded, forever, millis, secs, yielding};
use crate::protocol::observed::Observed;

fn policy() -> Policy {
    Policy::new(secs(60)).lease(secs(10))
}

#[tokio::test(start_paused = true)]
async fn a_first_call_costs_two_commands_and_a_duplicate_one() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    let counts = store.counts();
    assert_eq!((counts.claim, counts.replace, counts.remove), (1, 1, 0));
    guarded.run(1, forever()).await.unwrap_err();
    let counts = store.counts();
    assert_eq!((counts.claim, counts.replace, counts.remove), (2, 1, 0));
    guarded.run::<()>(2, yielding(Err(()))).await.unwrap_err();
    let counts = store.counts();
    assert_eq!(
        (counts.claim, counts.replace, counts.remove, counts.get),
        (3, 1, 1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_reply_was_lost_is_stored() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.next(Op::Replace, Fault::LoseReply);
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    assert_eq!(guarded.state_of(1).await, b'D');
}

#[tokio::test(start_paused = true)]
async fn a_completion_without_an_answer_never_becomes_a_release() {
    let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Replace, Fault::Hang);
    let begun = Instant::now();
    assert_eq!(guarded.run(1, yielding(Ok(7))).await.unwrap(), 7);
    assert!(begun.elapsed() <= millis(1100), "{:?}", begun.elapsed());
    assert_eq!(guarded.state_of(1).await, b'R');
    store.heal();
    guarded.settled().await;
    assert_eq!(guarded.state_of(1).await, b'D');
}

#[tokio::test(start_paused = true)]
async fn a_caller_gets_a_success_without_a_record_after_a_warning() {
    for settle in [Settle::Await, Settle::Background] {
        let store = FaultyStore::new(CountingStore::new(MemoryStore::new()));
        let observed = Observed::default();
        let guarded = observed.on(&Guarded::on(store.clone(), policy().settle(settle)));
        store.always(Op::Replace, Fault::Hang);
        guarded.run(1, yielding(Ok(()))).await.unwrap();
        if settle == Settle::Background {
            assert_eq!(observed.take(), ["executed"]);
            sleep(secs(2)).await;
            assert_eq!(observed.take(), ["unconfirmed"]);
        } else {
            assert_eq!(observed.take(), ["executed", "unconfirmed"]);
        }
        // As after a kill: the store hears nothing more of this process, and the lease and its grace end.
        let other = guarded.elsewhere();
        sleep(secs(20)).await;
        other.run(1, yielding(Ok(()))).await.unwrap();
        assert!(!observed.take().contains(&"unrecorded".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_while_settling_is_no_reason_for_silence() {
    let store = FaultyStore::new(MemoryStore::new());
    let observed = Observed::default();
    let guarded = observed.on(&Guarded::on(store.clone(), policy()));
    store.always(Op::Replace, Fault::Hang);
    let call = guarded.run(1, yielding(Ok(())));
    timeout(millis(50), call).await.unwrap_err();
    sleep(secs(5)).await;
    assert_eq!(unconfirmed(&observed.take()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_the_background_stores_in_time_is_not_reported() {
    for (fault, expected) in [
        (Fault::LoseReply, &["executed"][..]),
        (Fault::Fail(StoreErrorKind::NotApplied), &["executed"]),
        (Fault::Fail(StoreErrorKind::Full), &["executed", "not_kept"]),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let observed = Observed::default();
        let in_background = policy().settle(Settle::Background);
        let guarded = observed.on(&Guarded::on(store.clone(), in_background));
        store.next(Op::Replace, fault);
        guarded.run(1, yielding(Ok(()))).await.unwrap();
        guarded.settled().await;
        assert_eq!(observed.take(), expected, "{fault:?}");
        assert_eq!(store.remaining_faults(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_that_the_background_cannot_make_again_is_reported() {
    let store = FaultyStore::new(MemoryStore::new());
    let observed = Observed::default();
    let in_background = policy().settle(Settle::Background);
    let guarded = observed.on(&Guarded::on(store.clone(), in_background));
    let body = async {
        let entry = guarded.entry(1).await.unwrap();
        let key = guarded.key(1);
        guarded.store.remove(&key, &entry.value).await.unwrap();
        store.always(Op::Claim, Fault::Hang);
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    sleep(secs(2)).await;
    assert_eq!(unconfirmed(&observed.take()), 1);
}

fn unconfirmed(events: &[String]) -> usize {
    let unconfirmed = |event: &&String| *event == "unconfirmed";
    events.iter().filter(unconfirmed).count()
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_freed_in_time_is_no_lost_record() {
    let store = FaultyStore::new(MemoryStore::new());
    let observed = Observed::default();
    let guarded = observed.on(&Guarded::on(store.clone(), policy()));
    store.always(Op::Remove, Fault::Hang);
    guarded.run::<()>(1, yielding(Err(()))).await.unwrap_err();
    let exclusive = Guarded {
        policy: Policy::new(secs(10)).release(Release::Always),
        ..guarded.clone()
    };
    exclusive.run(2, yielding(Ok(()))).await.unwrap();
    store.heal();
    guarded.settled().await;
    assert_eq!(observed.take(), ["failed", "executed"]);
}

#[tokio::test(start_paused = true)]
async fn a_background_release_is_retried_until_the_lease_ends() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().renew(idempotent_runtime::Renew::No));
    store.always(Op::Remove, Fault::Fail(StoreErrorKind::NotApplied));
    let begun = Instant::now();
    guarded.run::<()>(1, yielding(Err(()))).await.unwrap_err();
    guarded.settled().await;
    let lasted = begun.elapsed();
    assert!(lasted >= secs(8) && lasted <= secs(11), "{lasted:?}");
    assert_eq!(guarded.state_of(1).await, b'R');
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_renewed_until_its_completion_succeeds() {
    let store = RenewsOnly(MemoryStore::new(), Arc::new(AtomicBool::new(true)));
    let only_renews = Arc::clone(&store.1);
    let guarded = Guarded::on(store, Policy::new(secs(60)).lease(secs(3)));
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    sleep(secs(20)).await;
    assert_eq!(guarded.state_of(1).await, b'R');
    only_renews.store(false, Ordering::SeqCst);
    guarded.settled().await;
    assert_eq!(guarded.state_of(1).await, b'D');
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_renewed_while_settling_even_if_the_body_never_paused() {
    for (caller_waits, settle) in [
        (true, Settle::Await),
        (false, Settle::Await),
        (false, Settle::Background),
    ] {
        let store = RenewsOnly(MemoryStore::new(), Arc::new(AtomicBool::new(true)));
        let only_renews = Arc::clone(&store.1);
        let policy = Policy::new(secs(60)).lease(millis(100)).settle(settle);
        let guarded = Guarded::on(store, policy);
        let later = async {
            sleep(if caller_waits { millis(900) } else { secs(20) }).await;
            let stored = guarded.entry(1).await;
            assert!(stored.is_some_and(|entry| entry.value.starts_with(b"idem2 R")));
            only_renews.store(false, Ordering::SeqCst);
        };
        let (outcome, ()) = tokio::join!(guarded.run(1, async { Ok(7) }), later);
        assert_eq!(outcome.unwrap(), 7);
        guarded.settled().await;
        let stored = guarded.entry(1).await;
        assert!(stored.is_some_and(|entry| entry.value.starts_with(b"idem2 D")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_dropped_while_settling_is_renewed_until_it_is_settled() {
    let only_renews = Arc::new(AtomicBool::new(true));
    let store = FaultyStore::new(RenewsOnly(MemoryStore::new(), Arc::clone(&only_renews)));
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)).lease(secs(3)));
    store.next(Op::Replace, Fault::Hang);
    let call = guarded.run(1, async { Ok(()) });
    timeout(millis(50), call).await.unwrap_err();
    sleep(secs(20)).await;
    let stored = guarded.entry(1).await;
    assert!(stored.is_some_and(|entry| entry.value.starts_with(b"idem2 R")));
    only_renews.store(false, Ordering::SeqCst);
    guarded.settled().await;
    let stored = guarded.entry(1).await;
    assert!(stored.is_some_and(|entry| entry.value.starts_with(b"idem2 D")));
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_finds_no_record_stores_its_own() {
    let guarded = Guarded::in_memory(policy());
    let body = async {
        let entry = guarded.entry(1).await.unwrap();
        guarded
            .store
            .remove(&guarded.key(1), &entry.value)
            .await
            .unwrap();
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    assert_eq!(guarded.state_of(1).await, b'D');
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_finds_another_holder_changes_nothing() {
    let guarded = Guarded::in_memory(policy());
    let other = guarded.elsewhere();
    let body = async {
        let entry = guarded.entry(1).await.unwrap();
        guarded
            .store
            .remove(&guarded.key(1), &entry.value)
            .await
            .unwrap();
        // Another call claims the key and still runs when this call ends.
        let held = other.call(1).claim().await.unwrap();
        Ok(held)
    };
    let held = guarded.run(1, body).await.unwrap();
    assert_eq!(guarded.state_of(1).await, b'R');
    held.settle(false).await;
    assert_eq!(
        guarded.entry(1).await,
        None,
        "the other holder could still release"
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_was_lost_frees_the_key() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(9)).release(Release::Always));
    store.next(Op::Remove, Fault::LoseReply);
    guarded.run(1, yielding(Ok(()))).await.unwrap();
    assert_eq!(guarded.entry(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_failed_body_returns_its_error_while_the_store_hangs() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Remove, Fault::Hang);
    let failed = guarded.run::<()>(1, yielding(Err(()))).await.unwrap_err();
    assert!(matches!(failed, Failed::Body));
    store.heal();
    guarded.settled().await;
    assert_eq!(guarded.entry(1).await, None);
}

/// A store that accepts renewals, but refuses new values while the flag is set.
#[derive(Debug)]
struct RenewsOnly(MemoryStore, Arc<AtomicBool>);

#[async_trait]
impl Wrap for RenewsOnly {
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
            return Err(StoreError::new(StoreErrorKind::NotApplied, "not now"));
        }
        self.0.replace(key, expected, value, ttl).await
    }
}

#[tokio::test(start_paused = true)]
async fn recording_a_success_uses_the_whole_deadline() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
    let heal = async {
        sleep(millis(700)).await;
        store.heal();
    };
    let (outcome, ()) = tokio::join!(guarded.run(1, async { Ok(()) }), heal);
    outcome.unwrap();
    let stored = guarded.entry(1).await.unwrap().value;
    assert!(stored.starts_with(b"idem2 D"), "{stored:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_was_lost_is_recorded_even_if_the_key_is_taken_again() {
    let store = FaultyStore::new(MemoryStore::new());
    let observed = Observed::default();
    let guarded = observed.on(&Guarded::on(store.clone(), policy().wait(secs(5))));
    let key = guarded.key(1);
    store.next(Op::Remove, Fault::LoseReply);
    let taken_again = async {
        while store.inner().get(&key).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
        let other = Bytes::from_static(b"another call");
        let claim = store.inner().claim(&key, &other, secs(10)).await;
        assert_eq!(claim.unwrap(), Claim::Claimed);
    };
    let (outcome, ()) = tokio::join!(guarded.run::<()>(1, yielding(Err(()))), taken_again);
    outcome.unwrap_err();
    let observed = observed.take();
    assert!(
        !observed.iter().any(|event| event.contains("unrecorded")),
        "{observed:?}"
    );
    assert_eq!(store.remaining_faults(), 0);
}
