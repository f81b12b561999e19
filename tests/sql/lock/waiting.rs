//! Waiting for locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotent_sql::sql::sqlx::Error;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::lock::databases::{Subject, fresh, taken};

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_mins(10);
/// How long a test waits for an event that must happen, also on a slow machine.
const MAX_WAIT: Duration = Duration::from_mins(2);

on_every_database! {
    a_waiting_caller_gets_the_lock_after_its_release
    a_waiting_caller_gets_the_lock_after_its_lease
    a_wait_that_times_out_names_the_holder
    all_waiting_callers_get_the_lock_one_at_a_time
    a_lease_that_expires_before_the_answer_is_an_error
}

async fn a_waiting_caller_gets_the_lock_after_its_release<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    let mut waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.take_within("trade:42", LONG, MAX_WAIT).await }
    });
    assert!(
        timeout(SHORT, &mut waiting).await.is_err(),
        "the caller must wait"
    );
    assert!(held.release().await.unwrap());
    let next = waiting.await.unwrap().unwrap().unwrap();
    assert_eq!(next.fence(), 2);
    assert!(next.remaining() > LONG / 2);
}

async fn a_waiting_caller_gets_the_lock_after_its_lease<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let held = taken(&lock, SHORT).await;
    let next = lock.take_within("trade:42", LONG, MAX_WAIT).await.unwrap();
    assert!(Instant::now() >= held.deadline());
    assert_eq!(next.unwrap().fence(), held.fence() + 1);
}

async fn a_wait_that_times_out_names_the_holder<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    let lock = fresh.lock();
    let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    for wait in [Duration::ZERO, SHORT] {
        let begun = Instant::now();
        let waited = lock.take_within("trade:42", LONG, wait).await.unwrap();
        assert!(begun.elapsed() >= wait);
        let holder = waited.unwrap_err();
        assert_eq!(holder.fence(), held.fence());
        assert!(holder.remaining() > LONG / 2 && holder.remaining() <= LONG + SHORT);
        let text = holder.to_string();
        assert!(
            text.starts_with("the holder with fence 1 has the lock for another "),
            "{text}"
        );
    }
    let free = lock
        .take_within("trade:43", LONG, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(free.unwrap().fence(), 1);
}

async fn all_waiting_callers_get_the_lock_one_at_a_time<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    const WAITING: u32 = 8;

    let barrier = Arc::new(Barrier::new(WAITING as usize));
    let inside = Arc::new(AtomicU32::new(0));
    let mut waiting = JoinSet::new();
    for _ in 0..WAITING {
        let (lock, barrier, inside) = (fresh.lock(), barrier.clone(), inside.clone());
        waiting.spawn(async move {
            barrier.wait().await;
            let held = lock
                .take_within("trade:42", LONG, MAX_WAIT)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(
                inside.fetch_add(1, Ordering::SeqCst),
                0,
                "only one task may hold the lock"
            );
            tokio::task::yield_now().await;
            inside.fetch_sub(1, Ordering::SeqCst);
            let fence = held.fence();
            assert!(held.release().await.unwrap());
            fence
        });
    }
    let mut fences = waiting.join_all().await;
    fences.sort_unstable();
    assert_eq!(fences, (1..=i64::from(WAITING)).collect::<Vec<_>>());
}

/// The lock was free before and is free again, so the answer must not be that another holder has it.
async fn a_lease_that_expires_before_the_answer_is_an_error<DB: Subject>() {
    let fresh = fresh::<DB>().await;
    const TOO_SHORT: Duration = Duration::from_millis(5);

    let lock = fresh.lock();
    let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    assert!(held.release().await.unwrap());
    let deadline = Instant::now() + MAX_WAIT;
    let error = loop {
        // On a slow machine the blocking transaction may end before the statement is sent.
        assert!(Instant::now() < deadline);
        let tx = DB::block(&fresh.pool).await;
        let mut taking = tokio::spawn({
            let lock = lock.clone();
            async move { lock.take("trade:42", TOO_SHORT).await }
        });
        assert!(
            timeout(SHORT, &mut taking).await.is_err(),
            "the statement must be blocked"
        );
        tx.commit().await.unwrap();
        if let Err(error) = taking.await.unwrap() {
            break error;
        }
    };
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("its lease of 5ms expired before the database answered"),
        "{text}"
    );
}
