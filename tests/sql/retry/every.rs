//! What is retried on every database.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::Error;
use idempotent_sql::sql::{self, Retry};
use sqlx::Executor as _;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::retry::databases::{Subject, fresh, insert, pay, payments, quickly};
use crate::retry::{HOUR, MAX_WAIT, Runs, Trouble, paying};

on_every_database! {
    a_success_is_committed_and_not_retried
    any_other_error_is_rolled_back_and_not_retried
    a_duplicate_is_not_retried
    an_error_without_a_type_is_retried_by_its_causes
    a_retry_starts_without_the_work_of_earlier_attempts
    a_retry_ends_after_the_last_attempt_with_its_error
    a_retry_ends_after_its_time
    a_future_dropped_in_its_body_leaves_nothing
    a_retry_holds_no_connection_between_two_attempts
}

async fn a_success_is_committed_and_not_retried<DB: Subject>() {
    let (fresh, runs) = (fresh::<DB>().await, Arc::new(Runs::default()));
    for policy in [Retry::when_nothing_was_done(), Retry::with_row()] {
        let (pool, runs) = (fresh.pool.clone(), Arc::clone(&runs));
        let paid = tokio::spawn(async move {
            sql::retry(&pool, policy, |tx| {
                Box::pin(async {
                    runs.one();
                    pay(tx, 7).await
                })
            })
            .await
        });
        assert_eq!(paid.await.unwrap().unwrap(), 7);
    }
    assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (2, 1));
}

async fn any_other_error_is_rolled_back_and_not_retried<DB: Subject>() {
    let (fresh, runs) = (fresh::<DB>().await, Runs::default());
    for policy in [Retry::when_nothing_was_done(), Retry::with_row()] {
        let declined = sql::retry(&fresh.pool, policy, |tx| {
            Box::pin(async {
                runs.one();
                pay(tx, 7).await?;
                Err::<(), _>(Trouble::Declined)
            })
        });
        assert!(matches!(declined.await, Err(Trouble::Declined)));
        let missing = sql::retry(&fresh.pool, policy, |tx| {
            Box::pin(async {
                runs.one();
                pay(tx, 7).await?;
                tx.execute("SELECT * FROM missing").await?;
                Ok::<_, Trouble>(())
            })
        });
        assert!(matches!(missing.await, Err(Trouble::Sql(_))));
    }
    assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (4, 0));
}

/// The errors that most services return. Neither implements `std::error::Error`.
async fn an_error_without_a_type_is_retried_by_its_causes<DB: Subject>() {
    let (fresh, runs) = (fresh::<DB>().await, Runs::default());
    let policy = Retry::with_row().pauses(Duration::from_millis(1), Duration::from_millis(5));
    let paid = sql::retry(&fresh.pool, policy, |tx| {
        Box::pin(async {
            let paid = paying(7)
                .replay()
                .run_in(tx, async |_: &mut DB::Connection| match runs.one() {
                    1 => Err(anyhow::Error::new(lost()).context("the first statement")),
                    run => Ok(run),
                });
            paid.await
        })
    });
    assert_eq!(paid.await.unwrap(), 2);
    let paid = sql::retry(&fresh.pool, policy, |_| {
        Box::pin(async {
            match runs.one() {
                3 => Err(Box::<dyn StdError + Send + Sync>::from(lost())),
                run => Ok(run),
            }
        })
    });
    assert_eq!(paid.await.unwrap(), 4);
    let declined = sql::retry(&fresh.pool, policy, |_| {
        runs.one();
        Box::pin(async { Err::<(), _>(anyhow::anyhow!("declined")) })
    });
    assert_eq!(declined.await.unwrap_err().to_string(), "declined");
    assert_eq!(runs.count(), 5);
}

fn lost() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())
}

async fn a_duplicate_is_not_retried<DB: Subject>() {
    let (fresh, runs) = (fresh::<DB>().await, Runs::default());
    let pay_once = async || {
        sql::retry(&fresh.pool, Retry::with_row(), |tx| {
            Box::pin(async {
                runs.one();
                paying(7)
                    .run_in(tx, async |tx: &mut DB::Connection| {
                        Ok::<_, Trouble>(insert(tx, 7).await?)
                    })
                    .await
            })
        })
        .await
    };
    pay_once().await.unwrap();
    let error = pay_once().await.unwrap_err();
    assert!(
        matches!(error, Trouble::Guard(Error::AlreadyDone(_))),
        "{error}"
    );
    assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (2, 1));
}

async fn a_retry_starts_without_the_work_of_earlier_attempts<DB: Subject>() {
    let (fresh, runs) = (fresh::<DB>().await, Runs::default());
    let paid = sql::retry(&fresh.pool, quickly(), |tx| {
        Box::pin(async {
            insert(tx, 7).await?;
            if runs.one() < 3 {
                return Err(Trouble::Sql(DB::conflict(&fresh.pool, tx).await));
            }
            Ok(())
        })
    });
    paid.await.unwrap();
    assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (3, 1));
}

async fn a_retry_ends_after_the_last_attempt_with_its_error<DB: Subject>() {
    let (fresh, runs) = (fresh::<DB>().await, Runs::default());
    let refused = sql::retry(&fresh.pool, quickly().tries(4), |tx| {
        Box::pin(async {
            insert(tx, 7).await?;
            runs.one();
            Err::<(), _>(Trouble::Sql(DB::conflict(&fresh.pool, tx).await))
        })
    });
    let error = refused.await.unwrap_err();
    assert!(sql::is_retryable(&error), "{error}");
    assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (4, 0));
}

async fn a_retry_ends_after_its_time<DB: Subject>() {
    let (fresh, runs) = (fresh::<DB>().await, Runs::default());
    let within = |time| quickly().tries(u32::MAX).within(time);
    let attempts = async |time| {
        let before = runs.count();
        let refused = sql::retry(&fresh.pool, within(time), |tx| {
            Box::pin(async {
                runs.one();
                Err::<(), _>(Trouble::Sql(DB::conflict(&fresh.pool, tx).await))
            })
        });
        let error = timeout(MAX_WAIT, refused).await.unwrap().unwrap_err();
        assert!(sql::is_retryable(&error), "{error}");
        runs.count() - before
    };
    assert_eq!(attempts(Duration::ZERO).await, 1);
    // On a slow machine one attempt may need more than the shortest time.
    for millis in [500, 1000, 2000, 4000, 8000, 16_000] {
        if attempts(Duration::from_millis(millis)).await > 1 {
            return;
        }
    }
    panic!("none of 6 times was long enough for two attempts");
}

async fn a_future_dropped_in_its_body_leaves_nothing<DB: Subject>() {
    let (fresh, began) = (fresh::<DB>().await, Arc::new(Notify::new()));
    let dropped = tokio::spawn({
        let (pool, began) = (fresh.pool.clone(), Arc::clone(&began));
        async move {
            sql::retry(&pool, Retry::with_row(), |tx| {
                Box::pin(async {
                    pay(tx, 7).await?;
                    began.notify_one();
                    std::future::pending::<Result<(), Trouble>>().await
                })
            })
            .await
        }
    });
    began.notified().await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    // Neither the row nor a lock on it remains.
    let paid = sql::retry(&fresh.pool, Retry::with_row(), |tx| Box::pin(pay(tx, 7)));
    assert_eq!(paid.await.unwrap(), 7);
    assert_eq!(payments(&fresh.pool, 7).await, 1);
}

async fn a_retry_holds_no_connection_between_two_attempts<DB: Subject>() {
    let (fresh, runs) = (fresh::<DB>().await, Arc::new(Runs::default()));
    let pausing = Retry::when_nothing_was_done()
        .pauses(HOUR, HOUR)
        .within(HOUR * 9);
    let pauses = tokio::spawn({
        let (pool, runs) = (fresh.pool.clone(), Arc::clone(&runs));
        async move {
            sql::retry(&pool, pausing, |tx| {
                Box::pin(async {
                    insert(tx, 7).await?;
                    runs.one();
                    Err::<(), _>(Trouble::Sql(DB::conflict(&pool, tx).await))
                })
            })
            .await
        }
    });
    let idle = async {
        while runs.count() < 1 || fresh.pool.num_idle() < fresh.pool.size() as usize {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(MAX_WAIT, idle).await.unwrap();
    let mut tx = fresh.pool.begin().await.unwrap();
    insert(&mut tx, 7).await.unwrap();
    tx.commit().await.unwrap();
    assert!(!pauses.is_finished());
    pauses.abort();
    assert!(pauses.await.unwrap_err().is_cancelled());
    assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (1, 1));
}
