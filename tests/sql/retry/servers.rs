//! What is retried on databases with a network connection: deadlocks, and connections that end.

use idempotent_sql::sql::{self, AsConnection, Retry};
use sqlx::pool::PoolOptions;
use sqlx::{AssertSqlSafe, Executor as _, Pool};
use tokio::sync::Barrier;
use tokio::time::timeout;
use url::Url;

use crate::retry::databases::{Server, fresh, insert, pay, payments};
use crate::retry::{MAX_WAIT, Runs, Trouble, paying};
use support::wire::{Point, Wire};

on_every_server! {
    both_transactions_of_a_deadlock_are_done_once
    without_a_retry_one_transaction_of_a_deadlock_fails
    with_the_row_a_connection_killed_before_the_commit_is_retried
    a_killed_connection_does_not_prove_that_nothing_was_done
    with_the_row_a_connection_cut_at_any_message_is_retried
    without_the_row_a_retry_after_a_lost_reply_does_the_work_twice
    without_the_row_a_lost_reply_is_an_error_and_not_retried
}

/// Moves money from the first of `accounts` to the second.
pub(crate) async fn move_cents<C>(
    tx: &mut C,
    accounts: [u32; 2],
    both_hold_one: Option<&Barrier>,
) -> sqlx::Result<()>
where
    C: AsConnection<Database: Server>,
{
    for (id, cents) in accounts.into_iter().zip([-100, 100]) {
        let update = format!("UPDATE account SET cents = cents + {cents} WHERE id = {id}");
        tx.as_connection().execute(AssertSqlSafe(update)).await?;
        if let Some(both_hold_one) = both_hold_one.filter(|_| cents < 0) {
            both_hold_one.wait().await;
        }
    }
    Ok(())
}

/// Runs two transactions that lock two rows in opposite order. Returns their results, and how often their bodies ran.
async fn crosswise<DB: Server>(pool: &Pool<DB>, policy: Retry) -> ([Result<u32, Trouble>; 2], u32) {
    let (runs, barrier) = (Runs::default(), Barrier::new(2));
    let pay = async |order: u32, accounts| {
        sql::retry(pool, policy, |tx| {
            Box::pin(async {
                // The deadlock is between their first attempts.
                let barrier = (runs.one() <= 2).then_some(&barrier);
                paying(order)
                    .replay()
                    .run_in(tx, async |tx: &mut DB::Connection| {
                        insert(tx, order).await?;
                        move_cents(tx, accounts, barrier).await?;
                        Ok::<_, Trouble>(order)
                    })
                    .await
            })
        })
        .await
    };
    let paid = tokio::join!(pay(7, [1, 2]), pay(8, [2, 1]));
    (paid.into(), runs.count())
}

async fn both_transactions_of_a_deadlock_are_done_once<DB: Server>() {
    let fresh = fresh::<DB>().await;
    let (paid, runs) = crosswise(&fresh.pool, Retry::when_nothing_was_done()).await;
    assert!(matches!(paid, [Ok(7), Ok(8)]), "{paid:?}");
    assert_eq!(runs, 3);
    for order in [7, 8] {
        assert_eq!(payments(&fresh.pool, order).await, 1);
    }
    let whole = sqlx::query_scalar("SELECT count(*) FROM account WHERE cents = 1000");
    assert_eq!(whole.fetch_one(&fresh.pool).await.ok(), Some(2_i64));
}

async fn without_a_retry_one_transaction_of_a_deadlock_fails<DB: Server>() {
    let fresh = fresh::<DB>().await;
    let once = Retry::when_nothing_was_done().tries(1);
    let (paid, runs) = crosswise(&fresh.pool, once).await;
    let refused: Vec<_> = paid.iter().filter_map(|paid| paid.as_ref().err()).collect();
    let [refused] = refused[..] else {
        panic!("{paid:?}");
    };
    assert!(sql::is_retryable(refused), "{refused}");
    assert_eq!(runs, 2);
}

/// Kills the connection of the first attempt after the work and before the commit.
async fn killed_before_the_commit<DB: Server>(
    pool: &Pool<DB>,
    policy: Retry,
) -> (Result<u32, Trouble>, u32) {
    let runs = Runs::default();
    let paid = sql::retry(pool, policy, |tx| {
        Box::pin(async {
            let paid = pay(tx, 7).await?;
            if runs.one() == 1 {
                DB::kill(pool, tx).await;
            }
            Ok::<_, Trouble>(paid)
        })
    });
    (paid.await, runs.count())
}

async fn with_the_row_a_connection_killed_before_the_commit_is_retried<DB: Server>() {
    let fresh = fresh::<DB>().await;
    let (paid, runs) = killed_before_the_commit(&fresh.pool, Retry::with_row()).await;
    assert_eq!((paid.unwrap(), runs), (7, 2));
    assert_eq!(payments(&fresh.pool, 7).await, 1);
}

async fn a_killed_connection_does_not_prove_that_nothing_was_done<DB: Server>() {
    let fresh = fresh::<DB>().await;
    let policy = Retry::when_nothing_was_done();
    let (paid, runs) = killed_before_the_commit(&fresh.pool, policy).await;
    let error = paid.unwrap_err();
    assert!(!sql::is_retryable(&error), "{error}");
    assert!(sql::is_retryable_with_row(&error), "{error}");
    assert_eq!((runs, payments(&fresh.pool, 7).await), (1, 0));
}

/// A transaction whose first connection was cut.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
struct Cut {
    point: Point,
    paid: Result<u32, Trouble>,
    runs: u32,
    payments: i64,
}

/// Pays orders over a connection that is cut. The cut is at another message for each order. With or without the dedup
/// row.
async fn cut_at_every_message<DB: Server>(policy: Retry, with_row: bool) -> Vec<Cut> {
    let fresh = fresh::<DB>().await;
    let port = fresh.url.parse::<Url>().unwrap().port().unwrap();
    let mut cuts = Vec::new();
    for (order, point) in (1..).zip(Point::all()) {
        let wire = Wire::cut(port, point);
        let pool = PoolOptions::<DB>::new().max_connections(1);
        let pool = pool.connect_lazy(&wire.url(&fresh.url)).unwrap();
        let runs = Runs::default();
        let paid = sql::retry(&pool, policy, |tx| {
            Box::pin(async {
                runs.one();
                if with_row {
                    return pay(tx, order).await;
                }
                insert(tx, order).await?;
                Ok(order)
            })
        });
        let paid = timeout(MAX_WAIT, paid).await.unwrap();
        pool.close().await;
        if !wire.reached() {
            assert_eq!((paid.unwrap(), runs.count()), (order, 1));
            break;
        }
        cuts.push(Cut {
            point,
            paid,
            runs: runs.count(),
            payments: payments(&fresh.pool, order).await,
        });
    }
    cuts
}

async fn with_the_row_a_connection_cut_at_any_message_is_retried<DB: Server>() {
    let cuts = cut_at_every_message::<DB>(Retry::with_row(), true).await;
    for cut in &cuts {
        assert!(cut.paid.is_ok() && cut.payments == 1, "{cut:#?}");
    }
    // The cuts are before the transaction, in it, and after it.
    assert!(cuts.iter().any(|cut| cut.runs == 2), "{cuts:#?}");
}

/// The negative control: nothing shows whether a `COMMIT` without a reply was applied.
async fn without_the_row_a_retry_after_a_lost_reply_does_the_work_twice<DB: Server>() {
    let cuts = cut_at_every_message::<DB>(Retry::with_row(), false).await;
    assert!(cuts.iter().any(|cut| cut.payments == 2), "{cuts:#?}");
}

async fn without_the_row_a_lost_reply_is_an_error_and_not_retried<DB: Server>() {
    let cuts = cut_at_every_message::<DB>(Retry::when_nothing_was_done(), false).await;
    for cut in &cuts {
        assert!(cut.payments <= 1 && cut.runs <= 1, "{cut:#?}");
        assert!(cut.paid.is_err() || cut.payments == 1, "{cut:#?}");
    }
    let untold = |cut: &Cut| cut.paid.is_err() && cut.payments == 1;
    assert!(cuts.iter().any(untold), "{cuts:#?}");
}
