//! What must hold of a guard that begins the transaction on a pool. Each library compiles this file with its own types.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use idempotence::sql::Retry;
use idempotence::sql::driver::{Driver, TransactionPool};
use idempotence::{Error, Idempotency, idempotent};
use support::turns::Turns;
use support::wire::{Point, Wire};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{DB, LibraryError, POOL_ROUND_TRIPS, Pool, open_pool, send_begun};
use crate::setting::{Database, MAX_WAIT, Subject as _, causes};

type Connection = <<Pool as TransactionPool>::Transaction as Driver>::Connection;

#[derive(Debug, thiserror::Error)]
enum PayError {
    #[error("refused")]
    Guard(#[from] Error),
    #[error("the statement failed")]
    Library(#[from] LibraryError),
    #[error("declined")]
    Declined,
}

#[idempotent(
    name = "orders.pay", using = handle, key = order, ttl = "1h", wait = "1m", replay = true, begin = pool, tx = tx
)]
async fn pay(
    handle: &Idempotency,
    pool: &Pool,
    runs: &AtomicU32,
    order: u32,
) -> Result<u32, PayError> {
    let insert = format!("INSERT INTO payment VALUES ({order})");
    send_begun(tx, &insert).await?;
    match runs.fetch_add(1, Ordering::Relaxed) {
        // The payment is rolled back, and an equal call runs.
        0 => Err(PayError::Declined),
        run => Ok(run),
    }
}

#[tokio::test]
async fn equal_calls_get_the_result_of_one_and_an_error_rolls_back() {
    let database = Database::<DB>::new().await;
    let (pool, runs) = (open_pool(&database.url, 3).await, AtomicU32::new(0));
    let calls = (0..10).map(|_| pay(&database.handle, &pool, &runs, 7));
    let (paid, declined): (Vec<_>, Vec<_>) =
        join_all(calls).await.into_iter().partition(Result::is_ok);
    assert_eq!(declined.len(), 1, "{declined:?}");
    for receipt in paid {
        assert_eq!(receipt.unwrap(), 1);
    }
    assert_eq!(database.payments().await, 1);
    let again = pay(&database.handle, &pool, &runs, 7).await;
    assert_eq!((again.unwrap(), runs.into_inner()), (1, 2));
}

#[tokio::test]
async fn a_dropped_call_is_rolled_back_at_once() {
    let database = Database::<DB>::new().await;
    // A second connection, because the server may notice the end of the first one late.
    let (pool, entered) = (open_pool(&database.url, 2).await, Notify::new());
    let pay = async |ends: bool| {
        let call = database.paying(7).replay().run_in_new(
            &pool,
            Retry::with_row(),
            async |tx: &mut Connection| {
                send_begun(tx, "INSERT INTO payment VALUES (7)").await?;
                entered.notify_one();
                if !ends {
                    std::future::pending::<()>().await;
                }
                Ok::<_, PayError>(2)
            },
        );
        call.await
    };
    tokio::select! {
        _ = pay(false) => panic!("the body never ends"),
        () = entered.notified() => {}
    }
    let paid = timeout(MAX_WAIT, pay(true)).await.unwrap();
    assert_eq!(paid.unwrap(), 2);
    assert_eq!(database.payments().await, 1);
}

#[tokio::test]
async fn all_of_a_conflict_runs_again() {
    let Some(conflict) = DB::CONFLICT else { return };
    let database = Database::<DB>::new().await;
    let (pool, runs) = (open_pool(&database.url, 1).await, AtomicU32::new(0));
    let policy = Retry::with_row().pauses(Duration::from_millis(1), Duration::from_millis(5));
    let call =
        database
            .paying(7)
            .replay()
            .run_in_new(&pool, policy, async |tx: &mut Connection| {
                send_begun(tx, "INSERT INTO payment VALUES (7)").await?;
                let run = runs.fetch_add(1, Ordering::Relaxed);
                if run < 2 {
                    send_begun(tx, conflict).await?;
                }
                Ok::<_, PayError>(run)
            });
    assert_eq!(call.await.unwrap(), 2);
    assert_eq!(database.payments().await, 1);
}

#[tokio::test]
async fn a_body_that_ignores_a_failed_statement_commits_all_or_gets_an_error() {
    let database = Database::<DB>::new().await;
    let pool = open_pool(&database.url, 1).await;
    for replay in [false, true] {
        let order = 7 + u32::from(replay);
        let pay = async |ignores: bool| {
            let call = database.paying(order);
            let body = async |tx: &mut Connection| {
                let insert = format!("INSERT INTO payment VALUES ({order})");
                send_begun(tx, &insert).await?;
                if ignores {
                    // There is such a row.
                    let failed = send_begun(tx, "INSERT INTO account VALUES (1, 5)").await;
                    failed.unwrap_err();
                }
                Ok::<_, PayError>(order)
            };
            if replay {
                call.replay()
                    .run_in_new(&pool, Retry::with_row(), body)
                    .await
            } else {
                call.run_in_new(&pool, Retry::with_row(), body).await
            }
        };
        let paid = pay(true).await;
        let payments = database.number("SELECT count(*) FROM payment").await;
        if DB::BREAKS {
            let Err(PayError::Guard(refused @ Error::Unavailable(_))) = &paid else {
                panic!("{paid:?}");
            };
            let text = refused.to_string();
            assert!(
                text.contains("return the error of every statement"),
                "{text}"
            );
            assert_eq!(payments, i64::from(replay));
            // Neither the work nor the row is committed.
            pay(false).await.unwrap();
        } else {
            paid.unwrap();
        }
        assert_eq!(database.payments().await, 1 + i64::from(replay));
    }
}

#[tokio::test]
async fn a_call_takes_the_documented_round_trips() {
    if DB::CONFLICT.is_none() {
        return;
    }
    let database = Database::<DB>::new().await;
    let turns = Turns::before(database.port()).await;
    let (from, to) = (database.port(), turns.port());
    let url = database
        .url
        .replace(&format!(":{from}/"), &format!(":{to}/"));
    let (pool, runs) = (open_pool(&url, 1).await, AtomicU32::new(1));
    let mut counted = Vec::new();
    // The first execution of a statement may also prepare it, so it is not counted.
    for order in [1, 1, 2, 2] {
        let before = turns.count();
        pay(&database.handle, &pool, &runs, order).await.unwrap();
        counted.push(turns.count() - before);
    }
    // `BEGIN`, the claim, the payment, the result and `COMMIT`; of a duplicate `BEGIN`, the claim, the row and `ROLLBACK`.
    assert_eq!(counted[2..], [5, 4].map(|call| call + POOL_ROUND_TRIPS));
}

#[tokio::test]
async fn a_connection_that_is_cut_at_any_message_pays_once() {
    if DB::CONFLICT.is_none() {
        // It has no server.
        return;
    }
    let database = Database::<DB>::new().await;
    let (mut repeated, mut since) = (0, 0);
    for (order, point) in (1..).zip(Point::all()) {
        let wire = Wire::cut(database.port(), point);
        let pool = open_pool(&wire.url(&database.url), 1).await;
        let runs = AtomicU32::new(1);
        let paid = timeout(MAX_WAIT, pay(&database.handle, &pool, &runs, order));
        if let Err(error) = paid.await.unwrap() {
            panic!("{point:?}: {}", causes(&error));
        }
        assert_eq!(database.payments().await, i64::from(order), "{point:?}");
        if runs.into_inner() > 2 {
            (repeated, since) = (repeated + 1, 0);
        } else {
            since += 1;
        }
        // These points are after the `COMMIT`.
        if repeated > 0 && since > 2 * POINTS_OF_A_MESSAGE {
            break;
        }
    }
}

const POINTS_OF_A_MESSAGE: u32 = 3;
