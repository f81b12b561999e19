//! A duplicate of a call whose transaction is open.

use std::time::{Duration, Instant};

use idempotent_runtime::DuplicateState;
use tokio::time::timeout;

use crate::tx::databases::{Subject, insert, pay, pay_and_commit, payments, pool};
use crate::tx::{MAX_WAIT, Trouble, causes, handle, is_retryable, paying, take_outcomes};

on_every_database! {
    a_duplicate_of_an_open_call_waits_for_its_commit
    a_rolled_back_first_call_lets_its_duplicate_run
    a_duplicate_stops_waiting_in_time_and_its_transaction_stays_usable
}

async fn a_duplicate_of_an_open_call_waits_for_its_commit<DB: Subject>() {
    let (pool, (handle, _)) = (pool::<DB>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(pay(&handle, &mut tx, 1).await.unwrap(), 1);
    let duplicate = tokio::spawn({
        let (handle, pool) = (handle.clone(), pool.clone());
        async move { pay_and_commit(&handle, &pool, 2).await }
    });
    DB::blocked(&pool, 1).await;
    assert!(!duplicate.is_finished());
    tx.commit().await.unwrap();
    assert_eq!(duplicate.await.unwrap().unwrap(), 1);
    assert_eq!(payments(&pool).await, 1);
}

async fn a_rolled_back_first_call_lets_its_duplicate_run<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(pay(&handle, &mut tx, 1).await.unwrap(), 1);
    let duplicate = tokio::spawn({
        let (handle, pool) = (handle.clone(), pool.clone());
        async move { pay_and_commit(&handle, &pool, 2).await }
    });
    DB::blocked(&pool, 1).await;
    tx.rollback().await.unwrap();
    assert_eq!(duplicate.await.unwrap().unwrap(), 2);
    assert_eq!(payments(&pool).await, 1);
    assert_eq!(take_outcomes(&outcomes), "executed executed");
}

async fn a_duplicate_stops_waiting_in_time_and_its_transaction_stays_usable<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    let mut first = pool.begin().await.unwrap();
    pay(&handle, &mut first, 1).await.unwrap();
    let mut second = pool.begin().await.unwrap();
    let began = Instant::now();
    let wait = Duration::from_millis(300);
    let duplicate = paying(&handle, 7).wait(wait).run_in(
        &mut second,
        async |_: &mut DB::Connection| -> Result<(), Trouble> {
            panic!("two equal calls run at the same time")
        },
    );
    let refused = timeout(MAX_WAIT, duplicate)
        .await
        .unwrap()
        .unwrap_err()
        .refusal();
    assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
    assert_eq!(refused.code(), DB::STILL_OPEN, "{refused}");
    if refused.is_duplicate() {
        let duplicate = refused.duplicate().unwrap();
        assert_eq!(duplicate.state(), DuplicateState::Running);
        assert_eq!(duplicate.holder(), "");
        assert!(duplicate.age() >= wait, "{duplicate}");
        assert_eq!(duplicate.free_in(), None);
        let hint = Duration::from_secs(1)..=Duration::from_secs(10);
        assert!(hint.contains(&duplicate.retry_after()), "{duplicate}");
        let text = "refused because the transaction of an equal call was still open after";
        assert!(refused.to_string().contains(text), "{refused}");
    } else {
        assert!(is_retryable(&refused), "{}", causes(&refused));
    }
    first.commit().await.unwrap();
    insert(&mut second, 8).await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(payments(&pool).await, 2);
    let ended = if refused.is_duplicate() {
        "in_progress"
    } else {
        "store_error"
    };
    assert_eq!(take_outcomes(&outcomes), format!("executed {ended}"));
}
