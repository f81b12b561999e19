//! The end of a fence: before its key is free, and without holding the key.

use idempotence::testkit::{Fault, FaultyStore, Op};
use idempotent_runtime::{MemoryStore, OnStoreError, Release, StoreErrorKind};
use tokio::time::{sleep, timeout};

use crate::protocol::fences::{facts, policy, run};
use crate::protocol::guarded::{Guarded, millis, secs};

/// The reply to the removal is late, so the key is free before the first call knows it.
#[tokio::test(start_paused = true)]
async fn a_call_that_claims_a_key_in_the_moment_it_becomes_free_does_not_take_over() {
    for ends in [Ok(()), Err(())] {
        let store = FaultyStore::new(MemoryStore::new());
        let first = Guarded::on(store.clone(), policy());
        let second = first.elsewhere();
        store.next(Op::Remove, Fault::ApplyThenHang);
        let ended = run(&first, async |_| ends);
        let next = async {
            sleep(millis(1)).await;
            assert!(first.entry(1).await.is_none());
            facts(&second).await
        };
        let (_, (_, attempt, took_over)) = tokio::join!(ended, next);
        let attempts = if ends.is_ok() { 1 } else { 2 };
        assert_eq!((attempt, took_over), (attempts, false));
        first.settled().await;
        let (_, attempt, took_over) = facts(&second).await;
        assert_eq!((attempt, took_over), (1, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_ends_has_ended() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    for op in [Op::Replace, Op::Remove] {
        for fault in [Fault::Hang, Fault::ApplyThenHang] {
            store.next(op, fault);
            assert!(timeout(millis(1), facts(&guarded)).await.is_err());
            guarded.settled().await;
            assert!(guarded.entry(1).await.is_none());
            let (_, attempt, took_over) = facts(&guarded).await;
            assert_eq!((attempt, took_over), (1, false), "{op:?} {fault:?}");
        }
    }
}

/// A store without room for the end of the fence must not keep the key taken.
#[tokio::test(start_paused = true)]
async fn a_full_store_frees_the_key_although_the_fence_stays_open() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy());
    store.always(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    facts(&guarded).await;
    assert!(guarded.entry(1).await.is_none());
    assert!(facts(&guarded).await.2);
}

/// The result does not fit, so the claim stays for the whole ttl.
#[tokio::test(start_paused = true)]
async fn the_fence_of_a_call_whose_result_is_not_stored_is_ended() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), policy().release(Release::OnError));
    store.next(Op::Replace, Fault::Fail(StoreErrorKind::Full));
    let (fence, ..) = facts(&guarded).await;
    guarded.settled().await;
    let line = guarded.fence_line(1).await.unwrap();
    assert_eq!(line, format!("idem1 F fence={fence} attempt=0 ended"));
}

#[tokio::test(start_paused = true)]
async fn the_fence_of_a_body_that_ran_without_an_answer_is_ended() {
    for release in [Release::Always, Release::OnError, Release::Never] {
        let store = FaultyStore::new(MemoryStore::new());
        let policy = policy().release(release).on_store_error(OnStoreError::Run);
        let guarded = Guarded::on(store.clone(), policy);
        store.always(Op::ClaimFenced, Fault::LoseReply);
        let unguarded = run(&guarded, async |cx| {
            assert_eq!(cx.fence(), 0);
            store.heal();
            Ok(())
        });
        unguarded.await.unwrap();
        guarded.settled().await;
        let line = guarded.fence_line(1).await.unwrap();
        assert!(line.ends_with(" attempt=0 ended"), "{release:?}: {line}");
    }
}

/// The replica that the end of the fence waits for is away, or another transaction has locked the row of the fence.
#[tokio::test(start_paused = true)]
async fn a_fence_that_cannot_be_ended_does_not_keep_the_key_taken() {
    for fault in [
        Fault::LoseReply,
        Fault::Hang,
        Fault::Fail(StoreErrorKind::Unknown),
        Fault::Fail(StoreErrorKind::NotApplied),
    ] {
        let store = FaultyStore::new(MemoryStore::new());
        let guarded = Guarded::on(store.clone(), policy());
        store.always(Op::Replace, fault);
        facts(&guarded).await;
        // Much less than the lease.
        sleep(secs(5)).await;
        assert!(guarded.entry(1).await.is_none(), "{fault:?}");
    }
}

/// The store is silent until the record must expire. So the end of the call removes the record instead of shortening its time.
#[tokio::test(start_paused = true)]
async fn a_late_end_of_a_key_that_is_never_released_ends_the_fence_first() {
    let store = FaultyStore::new(MemoryStore::new());
    let policy = policy().release(Release::Never);
    let guarded = Guarded::on(store.clone(), policy);
    let other = guarded.elsewhere();
    let late = run(&guarded, async |_| {
        sleep(secs(55)).await;
        store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
        Ok(())
    });
    late.await.unwrap();
    sleep(secs(10)).await;
    assert!(
        guarded.entry(1).await.is_some(),
        "a renewal has prolonged the record"
    );
    store.heal();
    // The next end of the fence is slow, and the key stays taken until then.
    store.next(Op::Replace, Fault::Delay(secs(1)));
    while guarded.entry(1).await.is_some() {
        sleep(millis(1)).await;
    }
    let (_, attempt, took_over) = facts(&other).await;
    assert_eq!((attempt, took_over), (1, false));
}
