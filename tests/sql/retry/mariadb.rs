//! What only MariaDB does.

use std::error::Error as StdError;

use idempotent_runtime::Error;
use idempotent_sql::sql::{self, Retry};
use sqlx::{MySql, MySqlConnection};
use tokio::sync::Barrier;

use crate::retry::databases::{fresh, insert, payments};
use crate::retry::servers::move_cents;
use crate::retry::{Runs, Trouble, paying};

#[tokio::test]
async fn a_body_that_continues_after_a_deadlock_gets_an_error_and_no_retry() {
    let (fresh, runs, barrier) = (fresh::<MySql>().await, Runs::default(), Barrier::new(2));
    let pay = async |order: u32, accounts| {
        sql::retry(&fresh.pool, Retry::with_row(), |tx| {
            Box::pin(async {
                runs.one();
                paying(order)
                    .replay()
                    .run_in(tx, async |tx: &mut MySqlConnection| {
                        let moved = move_cents(tx, accounts, Some(&barrier)).await;
                        // The body ignores the error by mistake.
                        drop(moved);
                        insert(tx, order).await?;
                        Ok::<_, Trouble>(order)
                    })
                    .await
            })
        })
        .await
    };
    let paid = tokio::join!(pay(7, [1, 2]), pay(8, [2, 1]));
    let paid: [Result<u32, Trouble>; 2] = paid.into();
    let refused: Vec<_> = paid.iter().filter_map(|paid| paid.as_ref().err()).collect();
    let [Trouble::Guard(refused)] = refused[..] else {
        panic!("{paid:?}");
    };
    assert!(matches!(refused, Error::LeaseLost(_)), "{refused}");
    let what = refused.to_string();
    assert!(
        what.contains("check what the body wrote before you"),
        "{what}"
    );
    let why = refused.source().unwrap().to_string();
    assert!(why.contains("after a deadlock"), "{why}");
    assert!(!sql::is_retryable(refused) && !sql::is_retryable_with_row(refused));
    assert_eq!(runs.count(), 2);
    // The payment was committed without its row, so a retry would pay twice.
    for order in [7, 8] {
        assert_eq!(payments(&fresh.pool, order).await, 1);
    }
    let rows = sqlx::query_scalar("SELECT count(*) FROM idempotence");
    assert_eq!(rows.fetch_one(&fresh.pool).await.ok(), Some(1_i64));
}

#[tokio::test]
async fn a_begun_call_whose_body_continues_after_a_deadlock_gets_an_error() {
    let (fresh, barrier) = (fresh::<MySql>().await, Barrier::new(2));
    let pay = async |order: u32, accounts| {
        let body = async |tx: &mut MySqlConnection| {
            let moved = move_cents(tx, accounts, Some(&barrier)).await;
            // The body ignores the error by mistake.
            drop(moved);
            Ok::<_, Trouble>(())
        };
        let call = paying(order);
        call.run_in_new(&fresh.pool, Retry::with_row(), body).await
    };
    let paid = tokio::join!(pay(7, [1, 2]), pay(8, [2, 1]));
    let paid: [Result<(), Trouble>; 2] = paid.into();
    let refused: Vec<_> = paid.iter().filter_map(|paid| paid.as_ref().err()).collect();
    let [Trouble::Guard(Error::LeaseLost(_))] = refused[..] else {
        panic!("{paid:?}");
    };
    let rows = sqlx::query_scalar("SELECT count(*) FROM idempotence");
    assert_eq!(rows.fetch_one(&fresh.pool).await.ok(), Some(1_i64));
}
