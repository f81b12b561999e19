//! What a call in the transaction stores, and what its duplicates get.

use std::future::pending;
use std::time::Duration;

use idempotent_runtime::{DuplicateState, Error, Release};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::tx::databases::{Subject, handle_on, insert, pay, pay_and_commit, payments, pool, rows};
use crate::tx::{HOUR, MAX_WAIT, Trouble, handle, paying, take_outcomes};

on_every_database! {
    a_committed_call_gives_its_result_to_duplicates
    a_call_and_the_transaction_in_it_may_share_a_name_and_a_key
    a_dedup_row_has_its_own_peek_and_forget
    without_replay_a_duplicate_gets_already_done
    a_call_that_was_rolled_back_leaves_nothing
    a_failed_call_that_is_committed_frees_its_key
    without_release_a_failed_call_keeps_its_key
    an_error_chosen_for_replay_is_stored_like_a_result
    a_panic_and_a_dropped_call_are_rolled_back_with_the_transaction
    another_payload_is_a_mismatch
    an_expired_row_is_replaced
    two_calls_in_one_transaction_run_once
    a_result_that_is_too_large_is_not_stored_and_the_call_does_not_run_again
}

async fn a_committed_call_gives_its_result_to_duplicates<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    assert_eq!(pay_and_commit(&handle, &pool, 1).await.unwrap(), 1);
    assert_eq!(pay_and_commit(&handle, &pool, 2).await.unwrap(), 1);
    assert_eq!(payments(&pool).await, 1);
    assert_eq!(take_outcomes(&outcomes), "executed replayed");
}

async fn a_call_and_the_transaction_in_it_may_share_a_name_and_a_key<DB: Subject>() {
    let pool = pool::<DB>().await;
    let handle = handle_on(&pool);
    let pay_guarded = async |receipt| {
        let pay = pay_and_commit(&handle, &pool, receipt);
        paying(&handle, 7).replay().run(pay).await.unwrap()
    };
    assert_eq!(pay_guarded(1).await, 1);
    assert_eq!(pay_guarded(2).await, 1);
    assert_eq!((payments(&pool).await, rows(&pool).await), (1, 2));
    // The record of the call is removed, so the row of the transaction answers.
    let call = handle.peek("orders.pay", &(7,)).await.unwrap().unwrap();
    assert!(handle.forget(&call).await.unwrap());
    assert_eq!(pay_guarded(3).await, 1);
    assert_eq!((payments(&pool).await, rows(&pool).await), (1, 2));
}

async fn a_dedup_row_has_its_own_peek_and_forget<DB: Subject>() {
    let pool = pool::<DB>().await;
    let handle = handle_on(&pool);
    let peek = async || handle.peek_tx("orders.pay", &(7,)).await.unwrap();
    assert!(peek().await.is_none());
    assert_eq!(pay_and_commit(&handle, &pool, 1).await.unwrap(), 1);
    assert!(handle.peek("orders.pay", &(7,)).await.unwrap().is_none());
    let row = peek().await.unwrap();
    assert_eq!(row.state(), DuplicateState::Done);
    assert!(row.remaining().unwrap() > HOUR / 2, "{row:?}");
    assert!(handle.forget(&row).await.unwrap());
    assert!(peek().await.is_none());
    assert!(!handle.forget(&row).await.unwrap());
    assert_eq!(pay_and_commit(&handle, &pool, 2).await.unwrap(), 2);
}

async fn without_replay_a_duplicate_gets_already_done<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    for round in 0..2 {
        let mut tx = pool.begin().await.unwrap();
        let paid = paying(&handle, 7)
            .run_in(&mut tx, async |tx: &mut DB::Connection| {
                Ok::<_, Trouble>(insert(tx, 7).await?)
            })
            .await;
        tx.commit().await.unwrap();
        assert_eq!(paid.is_ok(), round == 0);
        if let Err(error) = paid {
            let error = error.refusal();
            assert!(matches!(error, Error::AlreadyDone(_)), "{error}");
            let duplicate = error.duplicate().unwrap();
            let own = format!(":{}", std::process::id());
            assert!(duplicate.holder().ends_with(&own), "{duplicate}");
            assert!(duplicate.retry_after() > HOUR / 2, "{duplicate}");
        }
    }
    assert_eq!(payments(&pool).await, 1);
    assert_eq!(take_outcomes(&outcomes), "executed done");
}

async fn a_call_that_was_rolled_back_leaves_nothing<DB: Subject>() {
    let (pool, (handle, _)) = (pool::<DB>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(pay(&handle, &mut tx, 1).await.unwrap(), 1);
    tx.rollback().await.unwrap();
    assert_eq!((payments(&pool).await, rows(&pool).await), (0, 0));
    assert_eq!(pay_and_commit(&handle, &pool, 2).await.unwrap(), 2);
    assert_eq!(payments(&pool).await, 1);
}

async fn a_failed_call_that_is_committed_frees_its_key<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    for replay in [false, true] {
        let mut tx = pool.begin().await.unwrap();
        let call = paying(&handle, 7);
        let body = async |_: &mut DB::Connection| Err::<u32, _>(Trouble::Declined);
        let failed = if replay {
            call.replay().run_in(&mut tx, body).await
        } else {
            call.run_in(&mut tx, body).await
        };
        assert!(matches!(failed, Err(Trouble::Declined)));
        tx.commit().await.unwrap();
        assert_eq!(rows(&pool).await, 0);
    }
    assert_eq!(take_outcomes(&outcomes), "failed failed");
}

async fn without_release_a_failed_call_keeps_its_key<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    for round in 0..2 {
        let mut tx = pool.begin().await.unwrap();
        let failed = paying(&handle, 7)
            .release(Release::Never)
            .run_in(&mut tx, async |_: &mut DB::Connection| {
                Err::<u32, _>(Trouble::Declined)
            })
            .await;
        tx.commit().await.unwrap();
        match failed {
            Err(Trouble::Declined) if round == 0 => {}
            Err(Trouble::Guard(Error::Taken(_))) if round == 1 => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(take_outcomes(&outcomes), "failed taken");
}

async fn an_error_chosen_for_replay_is_stored_like_a_result<DB: Subject>() {
    let (pool, (handle, _)) = (pool::<DB>().await, handle());
    for answer in ["declined", "again"] {
        let mut tx = pool.begin().await.unwrap();
        let failed = paying(&handle, 7)
            .error(|error| error.code().to_owned())
            .replay()
            .replay_err(|_: &String| true)
            .run_in(&mut tx, async |_: &mut DB::Connection| {
                Err::<u32, _>(answer.to_owned())
            })
            .await;
        tx.commit().await.unwrap();
        assert_eq!(failed.unwrap_err(), "declined");
    }
}

async fn a_panic_and_a_dropped_call_are_rolled_back_with_the_transaction<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    let panicked = tokio::spawn({
        let (handle, pool) = (handle.clone(), pool.clone());
        async move {
            let mut tx = pool.begin().await.unwrap();
            let body = async |tx: &mut DB::Connection| {
                insert(tx, 7).await.unwrap();
                panic!("on purpose")
            };
            paying(&handle, 7)
                .run_in::<_, Result<(), Trouble>>(&mut tx, body)
                .await
        }
    });
    assert!(panicked.await.unwrap_err().is_panic());

    let (begins, has_begun) = oneshot::channel();
    let dropped = tokio::spawn({
        let (handle, pool) = (handle.clone(), pool.clone());
        async move {
            let mut tx = pool.begin().await.unwrap();
            let body = async |tx: &mut DB::Connection| {
                insert(tx, 7).await.unwrap();
                begins.send(()).unwrap();
                pending().await
            };
            paying(&handle, 7)
                .run_in::<_, Result<(), Trouble>>(&mut tx, body)
                .await
        }
    });
    has_begun.await.unwrap();
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());

    assert_eq!(pay_and_commit(&handle, &pool, 3).await.unwrap(), 3);
    assert_eq!(payments(&pool).await, 1);
    assert_eq!(take_outcomes(&outcomes), "panicked cancelled executed");
}

async fn another_payload_is_a_mismatch<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    for (amount, code) in [(5, "ok"), (6, "payload_mismatch"), (5, "already_done")] {
        let mut tx = pool.begin().await.unwrap();
        let paid = paying(&handle, 7)
            .payload(&amount)
            .run_in(&mut tx, async |tx: &mut DB::Connection| {
                Ok::<_, Trouble>(insert(tx, 7).await?)
            })
            .await;
        tx.commit().await.unwrap();
        let paid = paid.map_err(Trouble::refusal);
        assert_eq!(paid.map_or_else(|error| error.code(), |()| "ok"), code);
    }
    assert_eq!(take_outcomes(&outcomes), "executed mismatch done");
}

async fn an_expired_row_is_replaced<DB: Subject>() {
    let (pool, (handle, _)) = (pool::<DB>().await, handle());
    let pay_again = async || {
        let mut tx = pool.begin().await.unwrap();
        let paid = paying(&handle, 7)
            .ttl(Duration::from_millis(500))
            .run_in(&mut tx, async |tx: &mut DB::Connection| {
                Ok::<_, Trouble>(insert(tx, 7).await?)
            })
            .await;
        tx.commit().await.unwrap();
        paid
    };
    pay_again().await.unwrap();
    let paid_again = async { while pay_again().await.is_err() {} };
    timeout(MAX_WAIT, paid_again).await.unwrap();
    assert_eq!((payments(&pool).await, rows(&pool).await), (2, 1));
}

async fn two_calls_in_one_transaction_run_once<DB: Subject>() {
    let (pool, (handle, _)) = (pool::<DB>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(pay(&handle, &mut tx, 1).await.unwrap(), 1);
    assert_eq!(pay(&handle, &mut tx, 2).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(payments(&pool).await, 1);
}

async fn a_result_that_is_too_large_is_not_stored_and_the_call_does_not_run_again<DB: Subject>() {
    let (pool, (handle, outcomes)) = (pool::<DB>().await, handle());
    let pay = async || {
        let mut tx = pool.begin().await.unwrap();
        let paid = paying(&handle, 7)
            .replay()
            .run_in(&mut tx, async |_: &mut DB::Connection| {
                Ok::<_, Trouble>("x".repeat(2000))
            })
            .await;
        tx.commit().await.unwrap();
        paid
    };
    assert_eq!(pay().await.unwrap().len(), 2000);
    let refused = pay().await.unwrap_err().refusal();
    assert!(matches!(refused, Error::ResultUnavailable(_)), "{refused}");
    assert_eq!(
        take_outcomes(&outcomes),
        "not_kept executed result_unavailable"
    );
}
