//! Renewal of the lease of a long body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotence::testkit::{CountingStore, Fault, FaultyStore, Op};
use idempotent_runtime::store::Store as _;
use idempotent_runtime::{MemoryStore, OnLeaseLost, Policy, Release, Renew, StoreErrorKind};
use tokio::time::{Instant, sleep};

use crate::protocol::guarded::{Guarded, forever, millis, secs};

#[tokio::test(start_paused = true)]
async fn a_body_longer_than_its_lease_keeps_the_key() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).lease(secs(3)));
    let body = async {
        for _ in 0..100 {
            sleep(secs(1)).await;
            let refused = guarded
                .run(1, async { Ok(()) })
                .await
                .unwrap_err()
                .refusal();
            assert_eq!(refused.code(), "in_progress");
        }
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
    let refused = guarded
        .run(1, async { Ok(()) })
        .await
        .unwrap_err()
        .refusal();
    assert_eq!(refused.code(), "already_done");
}

#[tokio::test(start_paused = true)]
async fn a_body_is_renewed_no_longer_than_the_cap() {
    let policy = Policy::new(secs(60))
        .lease(secs(3))
        .renew(Renew::Cap(secs(10)));
    let guarded = Guarded::in_memory(policy);
    let begun = Instant::now();
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    let lasted = begun.elapsed();
    assert!(lasted >= secs(10) && lasted <= secs(14), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_renewed_is_stopped_at_the_end_of_its_lease() {
    let policy = Policy::new(secs(60)).lease(secs(3)).renew(Renew::No);
    let guarded = Guarded::in_memory(policy);
    let begun = Instant::now();
    let refused = guarded.run(1, forever()).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    assert!(begun.elapsed() >= secs(3) && begun.elapsed() < millis(3250));
    assert!(
        guarded.taken_for(1).await.is_some(),
        "stopped before the key is free"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_claim_was_removed_is_stopped_at_the_next_renewal() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).lease(secs(30)));
    let body = async {
        let entry = guarded.entry(1).await.unwrap();
        guarded
            .store
            .remove(&guarded.key(1), &entry.value)
            .await
            .unwrap();
        forever().await
    };
    let begun = Instant::now();
    let refused = guarded.run(1, body).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    assert!(begun.elapsed() <= millis(10_010), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn with_on_lease_lost_continue_the_body_returns_its_value() {
    let policy = Policy::new(secs(60))
        .lease(secs(3))
        .renew(Renew::No)
        .on_lease_lost(OnLeaseLost::Continue);
    let guarded = Guarded::in_memory(policy);
    let body = async {
        sleep(secs(10)).await;
        Ok(7)
    };
    assert_eq!(guarded.run(1, body).await.unwrap(), 7);
    let refused = guarded.run(1, async { Ok(0) }).await.unwrap_err().refusal();
    assert_eq!(
        refused.code(),
        "already_done",
        "the result is recorded because no record was stored"
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_completion_does_not_affect_the_next_holder() {
    let policy = Policy::new(secs(60))
        .lease(secs(3))
        .renew(Renew::No)
        .on_lease_lost(OnLeaseLost::Continue);
    let guarded = Guarded::in_memory(policy);
    let late = async {
        sleep(secs(10)).await;
        Ok(())
    };
    let next = async {
        sleep(secs(9)).await;
        let body = async {
            sleep(secs(2)).await;
            let stored = guarded.entry(1).await.unwrap().value;
            assert!(
                stored.starts_with(b"idem2 R"),
                "the late completion took the key"
            );
            Err::<(), ()>(())
        };
        guarded.run(1, body).await.unwrap_err()
    };
    let (late, _) = tokio::join!(guarded.run(1, late), next);
    late.unwrap();
    assert_eq!(guarded.taken_for(1).await, None);
}

#[tokio::test(start_paused = true)]
async fn renewal_retries_errors_until_the_lease_ends() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)).lease(secs(30)));
    let body = async {
        sleep(secs(9)).await;
        store.always(Op::Replace, Fault::Fail(StoreErrorKind::NotApplied));
        sleep(secs(20)).await;
        store.heal();
        sleep(secs(100)).await;
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_stops_the_body_when_the_lease_ends() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)).lease(secs(30)));
    let body = async {
        store.always(Op::Replace, Fault::Hang);
        forever().await
    };
    let begun = Instant::now();
    let refused = guarded.run(1, body).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    assert!(
        begun.elapsed() >= secs(30) && begun.elapsed() < secs(33),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_hanging_renewal_does_not_delay_others() {
    let hanging = FaultyStore::new(MemoryStore::new());
    hanging.always(Op::Replace, Fault::Hang);
    let stuck = Guarded::on(hanging, Policy::new(secs(60)).lease(secs(3)));
    let fine = Guarded::in_memory(Policy::new(secs(60)).lease(secs(3)));
    let body = async {
        sleep(secs(60)).await;
        Ok(())
    };
    let (stuck, fine) = tokio::join!(stuck.run(1, forever()), fine.run(1, body));
    assert_eq!(stuck.unwrap_err().refusal().code(), "lease_lost");
    fine.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_body_without_pauses_is_never_renewed_and_settling_stops_renewal() {
    let store = CountingStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)).lease(secs(3)));
    guarded.run(1, async { Ok(()) }).await.unwrap();
    let body = async {
        sleep(secs(1)).await;
        Ok(())
    };
    guarded.run(2, body).await.unwrap();
    let settled = store.counts();
    sleep(secs(30)).await;
    assert_eq!(store.counts(), settled);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_never_released_is_first_renewed_after_two_thirds_of_its_ttl() {
    let store = CountingStore::new(MemoryStore::new());
    let policy = Policy::new(secs(30)).release(Release::Never);
    let guarded = Guarded::on(store.clone(), policy);
    let body = async {
        sleep(secs(19)).await;
        assert_eq!(store.counts().replace, 0);
        sleep(secs(2)).await;
        assert_eq!(store.counts().replace, 1);
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_sets_the_ttl_to_lease_and_grace() {
    let guarded = Guarded::in_memory(Policy::new(secs(60)).lease(secs(30)));
    let body = async {
        sleep(secs(11)).await;
        assert_eq!(guarded.taken_for(1).await, Some(secs(30 + 3 - 1)));
        Ok(())
    };
    guarded.run(1, body).await.unwrap();
}

#[tokio::test]
async fn each_runtime_gets_a_new_scheduler() {
    for _ in 0..3 {
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            let guarded = Guarded::in_memory(Policy::new(secs(60)).lease(secs(3)));
            let body = async {
                sleep(secs(20)).await;
                Ok(())
            };
            runtime.block_on(guarded.run(1, body)).unwrap();
        })
        .join()
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_blocks_its_thread_past_the_lease_is_not_polled_again() {
    let policy = Policy::new(secs(60)).lease(millis(200)).renew(Renew::No);
    let guarded = Guarded::in_memory(policy);
    let polled_again = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&polled_again);
    let body = async move {
        std::thread::sleep(millis(300));
        tokio::task::yield_now().await;
        seen.store(true, Ordering::SeqCst);
        Ok(())
    };
    let refused = guarded.run(1, body).await.unwrap_err().refusal();
    assert_eq!(refused.code(), "lease_lost");
    assert!(!polled_again.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_lease_shorter_than_the_deadline_outlives_a_lost_reply() {
    let store = FaultyStore::new(MemoryStore::new());
    let guarded = Guarded::on(store.clone(), Policy::new(secs(60)).lease(millis(600)));
    for fault in [Fault::Hang, Fault::ApplyThenHang] {
        store.next(Op::Replace, fault);
        let body = async {
            sleep(secs(2)).await;
            Ok(())
        };
        guarded.run(1, body).await.unwrap();
        assert_eq!(store.remaining_faults(), 0);
        store
            .inner()
            .remove(&guarded.key(1), &guarded.entry(1).await.unwrap().value)
            .await
            .unwrap();
    }
}
