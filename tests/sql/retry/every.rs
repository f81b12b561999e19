//! Tests for every database. Each database defines `Db`, `Connection`, and `conflict`: an error with which the database asks
//! for a retry of the transaction.

macro_rules! every_database {
    () => {
        use std::sync::Arc;

        use idempotent_runtime::sql::{self, Retry};
        use sqlx::{AssertSqlSafe, Executor as _, Pool, Transaction};
        use tokio::sync::Notify;
        use tokio::time::timeout;

        use crate::retry::*;
        use support::databases::Fresh;

        type Tx<'c> = Transaction<'c, Db>;

        async fn fresh() -> Fresh<Db> {
            let fresh = Fresh::<Db>::new().await;
            sql::migrate(&fresh.pool).await.unwrap();
            // The table has no unique index, so it would accept a second payment.
            for statement in [
                "CREATE TABLE payment (order_no BIGINT NOT NULL)",
                "CREATE TABLE account (id INT PRIMARY KEY, cents INT NOT NULL)",
                "INSERT INTO account VALUES (1, 1000), (2, 1000)",
            ] {
                fresh.pool.execute(statement).await.unwrap();
            }
            fresh
        }

        async fn insert(tx: &mut Connection, order: u32) -> sqlx::Result<()> {
            let insert = format!("INSERT INTO payment (order_no) VALUES ({order})");
            tx.execute(AssertSqlSafe(insert)).await.map(drop)
        }

        /// Pays once, with the dedup row.
        async fn pay(tx: &mut Tx<'_>, order: u32) -> Result<u32, Trouble> {
            paying(order)
                .replay()
                // A server may notice a closed connection late.
                .wait(MAX_WAIT)
                .run_in(tx, async |tx: &mut Connection| {
                    insert(tx, order).await?;
                    Ok(order)
                })
                .await
        }

        async fn payments(pool: &Pool<Db>, order: u32) -> i64 {
            let count = format!("SELECT count(*) FROM payment WHERE order_no = {order}");
            let count = sqlx::query_scalar(AssertSqlSafe(count));
            count.fetch_one(pool).await.unwrap()
        }

        fn quickly() -> Retry {
            Retry::when_nothing_was_done()
                .pauses(Duration::from_millis(1), Duration::from_millis(5))
        }

        #[tokio::test]
        async fn a_success_is_committed_and_not_retried() {
            let (fresh, runs) = (fresh().await, Arc::new(Runs::default()));
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

        #[tokio::test]
        async fn any_other_error_is_rolled_back_and_not_retried() {
            let (fresh, runs) = (fresh().await, Runs::default());
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

        #[tokio::test]
        async fn a_duplicate_is_not_retried() {
            let (fresh, runs) = (fresh().await, Runs::default());
            let pay_once = async || {
                sql::retry(&fresh.pool, Retry::with_row(), |tx| {
                    Box::pin(async {
                        runs.one();
                        paying(7)
                            .run_in(tx, async |tx: &mut Connection| {
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

        #[tokio::test]
        async fn a_retry_starts_without_the_work_of_earlier_attempts() {
            let (fresh, runs) = (fresh().await, Runs::default());
            let paid = sql::retry(&fresh.pool, quickly(), |tx| {
                Box::pin(async {
                    insert(tx, 7).await?;
                    if runs.one() < 3 {
                        return Err(Trouble::Sql(conflict(&fresh.pool, tx).await));
                    }
                    Ok(())
                })
            });
            paid.await.unwrap();
            assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (3, 1));
        }

        #[tokio::test]
        async fn a_retry_ends_after_the_last_attempt_with_its_error() {
            let (fresh, runs) = (fresh().await, Runs::default());
            let refused = sql::retry(&fresh.pool, quickly().tries(4), |tx| {
                Box::pin(async {
                    insert(tx, 7).await?;
                    runs.one();
                    Err::<(), _>(Trouble::Sql(conflict(&fresh.pool, tx).await))
                })
            });
            let error = refused.await.unwrap_err();
            assert!(sql::is_retryable(&error), "{error}");
            assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (4, 0));
        }

        #[tokio::test]
        async fn a_retry_ends_after_its_time() {
            let (fresh, runs) = (fresh().await, Runs::default());
            let within = |time| quickly().tries(u32::MAX).within(time);
            for (time, most) in [(Duration::ZERO, 1), (Duration::from_millis(500), u32::MAX)] {
                let refused = sql::retry(&fresh.pool, within(time), |tx| {
                    Box::pin(async {
                        runs.one();
                        Err::<(), _>(Trouble::Sql(conflict(&fresh.pool, tx).await))
                    })
                });
                let error = timeout(MAX_WAIT, refused).await.unwrap().unwrap_err();
                assert!(sql::is_retryable(&error), "{error}");
                assert!(runs.count() <= most, "{}", runs.count());
            }
        }

        #[tokio::test]
        async fn a_future_dropped_in_its_body_leaves_nothing() {
            let (fresh, began) = (fresh().await, Arc::new(Notify::new()));
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

        #[tokio::test]
        async fn a_retry_holds_no_connection_between_two_attempts() {
            let (fresh, runs) = (fresh().await, Arc::new(Runs::default()));
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
                            Err::<(), _>(Trouble::Sql(conflict(&pool, tx).await))
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
    };
}
