//! Tests for every database. Each database defines `Db`, `Connection`, `wait_for_a_waiter` and `STILL_OPEN`.

macro_rules! every_database {
    () => {
        use std::future::pending;
        use std::time::Instant;

        use futures_util::future::join_all;
        use idempotent_runtime::{DuplicateState, Release, SqlStore};
        use sqlx::{AssertSqlSafe, Executor as _, Pool, Transaction};
        use tokio::sync::{Barrier, oneshot};
        use tokio::time::timeout;

        use crate::tx::*;
        use support::databases::Kind as _;

        type Tx = Transaction<'static, Db>;

        async fn begin(pool: &Pool<Db>) -> sqlx::Result<Tx> {
            pool.begin().await
        }

        async fn pool() -> Pool<Db> {
            pool_at(&Db::url()).await
        }

        /// Connections to the new database at `url`. Makes the tables.
        async fn pool_at(url: &str) -> Pool<Db> {
            let pool = Db::pool(url, &[]).await;
            sql::migrate(&pool).await.unwrap();
            pool.execute("CREATE TABLE payment (order_no BIGINT NOT NULL)")
                .await
                .unwrap();
            pool
        }

        /// The work: inserts a row for a payment. The table would accept a second row.
        async fn insert(tx: &mut Connection, order: u32) -> sqlx::Result<()> {
            let insert = format!("INSERT INTO payment (order_no) VALUES ({order})");
            tx.execute(AssertSqlSafe(insert)).await.map(drop)
        }

        async fn payments(pool: &Pool<Db>) -> i64 {
            let count = sqlx::query_scalar("SELECT count(*) FROM payment");
            count.fetch_one(pool).await.unwrap()
        }

        async fn rows(pool: &Pool<Db>) -> i64 {
            let count = sqlx::query_scalar("SELECT count(*) FROM idempotence");
            count.fetch_one(pool).await.unwrap()
        }

        /// Pays order 7 and returns this receipt.
        async fn pay(handle: &Idempotency, tx: &mut Tx, receipt: u32) -> Result<u32, Trouble> {
            paying(handle, 7)
                .replay()
                .run_in(tx, async |tx: &mut Connection| {
                    insert(tx, 7).await?;
                    Ok(receipt)
                })
                .await
        }

        /// Does the same in its own transaction, and commits a success.
        async fn pay_and_commit(
            handle: &Idempotency,
            pool: &Pool<Db>,
            receipt: u32,
        ) -> Result<u32, Trouble> {
            let mut tx = begin(pool).await?;
            let receipt = pay(handle, &mut tx, receipt).await?;
            tx.commit().await?;
            Ok(receipt)
        }

        #[tokio::test]
        async fn a_committed_call_gives_its_result_to_duplicates() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            assert_eq!(pay_and_commit(&handle, &pool, 1).await.unwrap(), 1);
            assert_eq!(pay_and_commit(&handle, &pool, 2).await.unwrap(), 1);
            assert_eq!(payments(&pool).await, 1);
            assert_eq!(take_outcomes(&outcomes), "executed replayed");
        }

        /// A handle whose store uses the table of the dedup rows.
        fn handle_on(pool: &Pool<Db>) -> Idempotency {
            Idempotency::new(SqlStore::new(pool.clone()))
        }

        #[tokio::test]
        async fn a_call_and_the_transaction_in_it_may_share_a_name_and_a_key() {
            let pool = pool().await;
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

        #[tokio::test]
        async fn a_dedup_row_has_its_own_peek_and_forget() {
            let pool = pool().await;
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

        #[tokio::test]
        async fn without_replay_a_duplicate_gets_already_done() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            for round in 0..2 {
                let mut tx = begin(&pool).await.unwrap();
                let paid = paying(&handle, 7)
                    .run_in(&mut tx, async |tx: &mut Connection| {
                        Ok::<_, Trouble>(insert(tx, 7).await?)
                    })
                    .await;
                tx.commit().await.unwrap();
                assert_eq!(paid.is_ok(), round == 0);
                if let Err(error) = paid {
                    let error = error.refusal();
                    assert!(matches!(error, Error::AlreadyDone(_)), "{error}");
                    let duplicate = error.duplicate().unwrap();
                    let pid = format!(":{}", std::process::id());
                    assert!(duplicate.holder().ends_with(&pid), "{duplicate}");
                    assert!(duplicate.retry_after() > HOUR / 2, "{duplicate}");
                }
            }
            assert_eq!(payments(&pool).await, 1);
            assert_eq!(take_outcomes(&outcomes), "executed done");
        }

        #[tokio::test]
        async fn a_call_that_was_rolled_back_leaves_nothing() {
            let (pool, (handle, _)) = (pool().await, handle());
            let mut tx = begin(&pool).await.unwrap();
            assert_eq!(pay(&handle, &mut tx, 1).await.unwrap(), 1);
            tx.rollback().await.unwrap();
            assert_eq!((payments(&pool).await, rows(&pool).await), (0, 0));
            assert_eq!(pay_and_commit(&handle, &pool, 2).await.unwrap(), 2);
            assert_eq!(payments(&pool).await, 1);
        }

        #[tokio::test]
        async fn a_duplicate_of_an_open_call_waits_for_its_commit() {
            let (pool, (handle, _)) = (pool().await, handle());
            let mut tx = begin(&pool).await.unwrap();
            assert_eq!(pay(&handle, &mut tx, 1).await.unwrap(), 1);
            let duplicate = tokio::spawn({
                let (handle, pool) = (handle.clone(), pool.clone());
                async move { pay_and_commit(&handle, &pool, 2).await }
            });
            wait_for_a_waiter(&pool).await;
            assert!(!duplicate.is_finished());
            tx.commit().await.unwrap();
            assert_eq!(duplicate.await.unwrap().unwrap(), 1);
            assert_eq!(payments(&pool).await, 1);
        }

        #[tokio::test]
        async fn a_rolled_back_first_call_lets_its_duplicate_run() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            let mut tx = begin(&pool).await.unwrap();
            assert_eq!(pay(&handle, &mut tx, 1).await.unwrap(), 1);
            let duplicate = tokio::spawn({
                let (handle, pool) = (handle.clone(), pool.clone());
                async move { pay_and_commit(&handle, &pool, 2).await }
            });
            wait_for_a_waiter(&pool).await;
            tx.rollback().await.unwrap();
            assert_eq!(duplicate.await.unwrap().unwrap(), 2);
            assert_eq!(payments(&pool).await, 1);
            assert_eq!(take_outcomes(&outcomes), "executed executed");
        }

        #[tokio::test]
        async fn a_duplicate_stops_waiting_in_time_and_its_transaction_stays_usable() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            let mut first = begin(&pool).await.unwrap();
            pay(&handle, &mut first, 1).await.unwrap();
            let mut second = begin(&pool).await.unwrap();
            let began = Instant::now();
            let wait = Duration::from_millis(300);
            let duplicate = paying(&handle, 7).wait(wait).run_in(
                &mut second,
                async |_: &mut Connection| -> Result<(), Trouble> {
                    panic!("two equal calls run at the same time")
                },
            );
            let refused = timeout(MAX_WAIT, duplicate)
                .await
                .unwrap()
                .unwrap_err()
                .refusal();
            assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
            assert_eq!(refused.code(), STILL_OPEN, "{refused}");
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

        #[tokio::test]
        async fn a_failed_call_that_is_committed_frees_its_key() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            for replay in [false, true] {
                let mut tx = begin(&pool).await.unwrap();
                let call = paying(&handle, 7);
                let body = async |_: &mut Connection| Err::<u32, _>(Trouble::Declined);
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

        #[tokio::test]
        async fn without_release_a_failed_call_keeps_its_key() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            for round in 0..2 {
                let mut tx = begin(&pool).await.unwrap();
                let failed = paying(&handle, 7)
                    .release(Release::Never)
                    .run_in(&mut tx, async |_: &mut Connection| {
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

        #[tokio::test]
        async fn an_error_chosen_for_replay_is_stored_like_a_result() {
            let (pool, (handle, _)) = (pool().await, handle());
            for answer in ["declined", "again"] {
                let mut tx = begin(&pool).await.unwrap();
                let failed = paying(&handle, 7)
                    .error(|error| error.code().to_owned())
                    .replay()
                    .replay_err(|_: &String| true)
                    .run_in(&mut tx, async |_: &mut Connection| {
                        Err::<u32, _>(answer.to_owned())
                    })
                    .await;
                tx.commit().await.unwrap();
                assert_eq!(failed.unwrap_err(), "declined");
            }
        }

        #[tokio::test]
        async fn a_panic_and_a_dropped_call_are_rolled_back_with_the_transaction() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            let panicked = tokio::spawn({
                let (handle, pool) = (handle.clone(), pool.clone());
                async move {
                    let mut tx = begin(&pool).await.unwrap();
                    let body = async |tx: &mut Connection| {
                        insert(tx, 7).await.unwrap();
                        panic!("on purpose")
                    };
                    paying(&handle, 7)
                        .run_in::<_, Result<(), Trouble>>(&mut tx, body)
                        .await
                }
            });
            assert!(panicked.await.unwrap_err().is_panic());

            let (began, begun) = oneshot::channel();
            let dropped = tokio::spawn({
                let (handle, pool) = (handle.clone(), pool.clone());
                async move {
                    let mut tx = begin(&pool).await.unwrap();
                    let body = async |tx: &mut Connection| {
                        insert(tx, 7).await.unwrap();
                        began.send(()).unwrap();
                        pending().await
                    };
                    paying(&handle, 7)
                        .run_in::<_, Result<(), Trouble>>(&mut tx, body)
                        .await
                }
            });
            begun.await.unwrap();
            dropped.abort();
            assert!(dropped.await.unwrap_err().is_cancelled());

            assert_eq!(pay_and_commit(&handle, &pool, 3).await.unwrap(), 3);
            assert_eq!(payments(&pool).await, 1);
            assert_eq!(take_outcomes(&outcomes), "panicked cancelled executed");
        }

        #[tokio::test]
        async fn another_payload_is_a_mismatch() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            for (amount, code) in [(5, "ok"), (6, "payload_mismatch"), (5, "already_done")] {
                let mut tx = begin(&pool).await.unwrap();
                let paid = paying(&handle, 7)
                    .payload(&amount)
                    .run_in(&mut tx, async |tx: &mut Connection| {
                        Ok::<_, Trouble>(insert(tx, 7).await?)
                    })
                    .await;
                tx.commit().await.unwrap();
                let paid = paid.map_err(Trouble::refusal);
                assert_eq!(paid.map_or_else(|error| error.code(), |()| "ok"), code);
            }
            assert_eq!(take_outcomes(&outcomes), "executed mismatch done");
        }

        #[tokio::test]
        async fn an_expired_row_is_replaced() {
            let (pool, (handle, _)) = (pool().await, handle());
            let pay_again = async || {
                let mut tx = begin(&pool).await.unwrap();
                let paid = paying(&handle, 7)
                    .ttl(Duration::from_millis(500))
                    .run_in(&mut tx, async |tx: &mut Connection| {
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

        #[tokio::test]
        async fn two_calls_in_one_transaction_run_once() {
            let (pool, (handle, _)) = (pool().await, handle());
            let mut tx = begin(&pool).await.unwrap();
            assert_eq!(pay(&handle, &mut tx, 1).await.unwrap(), 1);
            assert_eq!(pay(&handle, &mut tx, 2).await.unwrap(), 1);
            tx.commit().await.unwrap();
            assert_eq!(payments(&pool).await, 1);
        }

        #[tokio::test]
        async fn a_result_that_is_too_large_is_not_stored_and_the_call_does_not_run_again() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            let pay = async || {
                let mut tx = begin(&pool).await.unwrap();
                let paid = paying(&handle, 7)
                    .replay()
                    .run_in(&mut tx, async |_: &mut Connection| {
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

        #[tokio::test]
        async fn a_connection_in_no_transaction_is_refused() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            let mut connection = pool.acquire().await.unwrap();
            let refused = paying(&handle, 7)
                .run_in(
                    &mut connection,
                    async |_: &mut Connection| -> Result<(), Trouble> {
                        panic!("the body must not run")
                    },
                )
                .await
                .unwrap_err()
                .refusal();
            assert!(matches!(refused, Error::Misconfigured(_)), "{refused}");
            assert!(
                refused.to_string().contains("`tx` is not in a transaction"),
                "{refused}"
            );
            assert_eq!(rows(&pool).await, 0);
            assert_eq!(take_outcomes(&outcomes), "store_error");
        }

        #[tokio::test]
        async fn settings_of_a_lease_are_refused() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            let mut tx = begin(&pool).await.unwrap();
            let refused = paying(&handle, 7)
                .lease(HOUR)
                .run_in(&mut tx, async |_: &mut Connection| -> Result<(), Trouble> {
                    panic!("the body must not run")
                })
                .await
                .unwrap_err()
                .refusal();
            assert!(matches!(refused, Error::InvalidPolicy(_)), "{refused}");
            assert_eq!(take_outcomes(&outcomes), "invalid");
        }

        #[tokio::test]
        async fn a_result_whose_row_was_removed_is_an_error_that_is_not_retried() {
            let (pool, (handle, outcomes)) = (pool().await, handle());
            let mut tx = begin(&pool).await.unwrap();
            let refused = paying(&handle, 7)
                .replay()
                .run_in(&mut tx, async |tx: &mut Connection| {
                    tx.execute("DELETE FROM idempotence").await?;
                    Ok::<_, Trouble>(1)
                })
                .await
                .unwrap_err()
                .refusal();
            assert!(matches!(refused, Error::LeaseLost(_)), "{refused}");
            let text = causes(&refused);
            assert!(text.contains("not in the transaction any more"), "{text}");
            assert!(
                text.contains("the database ended the transaction"),
                "{text}"
            );
            assert!(!is_retryable(&refused), "{text}");
            assert!(!sql::is_retryable_with_row(&refused), "{text}");
            assert_eq!(take_outcomes(&outcomes), "lease_lost");
        }

        #[tokio::test]
        async fn without_its_table_a_call_is_refused_as_misconfigured() {
            let (pool, (handle, _)) = (pool().await, handle());
            pool.execute("DROP TABLE idempotence").await.unwrap();
            let mut tx = begin(&pool).await.unwrap();
            let refused = pay(&handle, &mut tx, 1).await.unwrap_err().refusal();
            assert!(
                matches!(refused, Error::Misconfigured(_)),
                "{}",
                causes(&refused)
            );
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn one_of_fifty_concurrent_calls_pays() {
            let (pool, (handle, _)) = (pool().await, handle());
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

        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn one_of_twenty_calls_that_find_an_expired_row_pays_again() {
            let (pool, (handle, _)) = (pool().await, handle());
            let mut tx = begin(&pool).await.unwrap();
            paying(&handle, 7)
                .ttl(Duration::from_millis(1))
                .run_in(&mut tx, async |tx: &mut Connection| {
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
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn several_of_fifty_calls_that_read_first_pay() {
            let pool = pool().await;
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

        /// Claims two keys in this order. Rolls the transaction back if the database asks for a retry.
        #[allow(dead_code, reason = "SQLite has one writer at a time")]
        async fn pays_both(
            handle: &Idempotency,
            mut tx: Tx,
            keys: [u32; 2],
            both_hold_one: &Barrier,
        ) -> Result<(), Error> {
            for key in keys {
                let paid = paying(handle, key)
                    .run_in(&mut tx, async |tx: &mut Connection| {
                        Ok::<_, Trouble>(insert(tx, key).await?)
                    })
                    .await;
                if let Err(error) = paid {
                    tx.rollback().await.unwrap();
                    return Err(error.refusal());
                }
                if key == keys[0] {
                    both_hold_one.wait().await;
                }
            }
            tx.commit().await.unwrap();
            Ok(())
        }
    };
}
