//! Many concurrent calls.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::Executor as _;
use tokio::sync::Barrier;
use tokio::time::timeout;

use crate::tx::databases::{Subject, handle_on, insert, pay_and_commit, payments, pool, rows};
use crate::tx::{MAX_WAIT, Trouble, handle, is_retryable, paying};

on_every_database! {
    one_of_fifty_concurrent_calls_pays
    one_of_twenty_calls_that_find_an_expired_row_pays_again
    several_of_fifty_calls_that_read_first_pay
}

async fn one_of_fifty_concurrent_calls_pays<DB: Subject>() {
    let (pool, (handle, _)) = (pool::<DB>().await, handle());
    let barrier = Arc::new(Barrier::new(50));
    let calls = (0..50).map(|receipt| {
        let (handle, pool, barrier) = (handle.clone(), pool.clone(), barrier.clone());
        tokio::spawn(async move {
            // Each task gets a connection of the pool before the race begins.
            drop(pool.acquire().await);
            barrier.wait().await;
            pay_and_commit(&handle, &pool, receipt).await
        })
    });
    let receipts = join_all(calls).await;
    let receipts: Vec<_> = receipts
        .into_iter()
        .map(|paid| paid.unwrap().unwrap())
        .collect();
    assert_eq!(payments(&pool).await, 1);
    assert!(
        receipts.iter().all(|receipt| *receipt == receipts[0]),
        "{receipts:?}"
    );
}

async fn one_of_twenty_calls_that_find_an_expired_row_pays_again<DB: Subject>() {
    let (pool, (handle, _)) = (pool::<DB>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    paying(&handle, 7)
        .ttl(Duration::from_millis(1))
        .run_in(&mut tx, async |tx: &mut DB::Connection| {
            Ok::<_, Trouble>(insert(tx, 7).await?)
        })
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let on_pool = handle_on(&pool);
    let expired = async {
        while on_pool
            .peek_tx("orders.pay", &(7,))
            .await
            .unwrap()
            .is_some()
        {}
    };
    timeout(MAX_WAIT, expired).await.unwrap();

    let barrier = Arc::new(Barrier::new(20));
    let calls = (0..20).map(|receipt| {
        let (handle, pool, barrier) = (handle.clone(), pool.clone(), barrier.clone());
        tokio::spawn(async move {
            drop(pool.acquire().await);
            barrier.wait().await;
            loop {
                match pay_and_commit(&handle, &pool, receipt).await {
                    Err(Trouble::Guard(error)) if is_retryable(&error) => {}
                    paid => break paid.unwrap(),
                }
            }
        })
    });
    let receipts = timeout(MAX_WAIT, join_all(calls)).await.unwrap();
    let receipts: Vec<_> = receipts.into_iter().map(|paid| paid.unwrap()).collect();
    assert!(
        receipts.iter().all(|receipt| *receipt == receipts[0]),
        "{receipts:?}"
    );
    assert_eq!((payments(&pool).await, rows(&pool).await), (2, 1));
}

/// The negative control of the race: calls that read before they write sooner or later pay more than once.
async fn several_of_fifty_calls_that_read_first_pay<DB: Subject>() {
    let pool = pool::<DB>().await;
    let rounds = async {
        while payments(&pool).await < 2 {
            pool.execute("DELETE FROM payment").await.unwrap();
            let barrier = Arc::new(Barrier::new(50));
            let calls = (0..50).map(|_| {
                let (pool, barrier) = (pool.clone(), barrier.clone());
                tokio::spawn(async move {
                    let mut connection = pool.acquire().await.unwrap();
                    barrier.wait().await;
                    let paid = "SELECT count(*) FROM payment";
                    let paid = sqlx::query_scalar::<_, i64>(paid);
                    if paid.fetch_one(&mut *connection).await.unwrap() == 0 {
                        insert(&mut connection, 7).await.unwrap();
                    }
                })
            });
            join_all(calls).await;
        }
    };
    timeout(MAX_WAIT, rounds).await.unwrap();
}
