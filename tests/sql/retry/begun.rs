//! Calls whose guard begins the transaction.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use idempotent_runtime::{Duplicate, Error, GuardedCall, Idempotency};
use idempotent_sql::sql::Retry;
use sqlx::pool::PoolOptions;
use sqlx::{Executor as _, PgConnection, Pool, Postgres};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use crate::retry::databases::{Server, Subject, fresh, insert, payments};
use crate::retry::{HOUR, MAX_WAIT, Runs, Trouble, handle};
use support::databases::{Fresh, Kind};
use support::wire::{Point, Wire};

on_every_server! {
    a_connection_cut_at_any_message_is_retried
}

mod every {
    use super::*;

    on_every_database! {
        equal_calls_wait_without_a_connection_and_get_the_result
        if_the_first_call_fails_an_equal_call_runs
        a_dropped_call_passes_its_turn
        a_call_that_waits_too_long_is_refused
        another_payload_is_refused_while_the_first_call_runs
        a_call_without_a_row_refuses_no_other_payload
        a_call_that_is_rolled_back_refuses_no_other_payload
        all_of_a_conflict_runs_again
        a_lost_connection_of_another_service_does_not_run_the_body_again
        calls_on_two_databases_are_not_equal
    }

    pub(super) async fn equal_calls_wait_without_a_connection_and_get_the_result<DB: Subject>() {
        let (fresh, runs) = (fresh::<DB>().await, Runs::default());
        let (entered, go) = (Notify::new(), Notify::new());
        let (handle, pool) = (handle(), two(&fresh));
        let calls = (0..100).map(|_| {
            paying(&handle).replay().run_in_new(
                &pool,
                Retry::with_row(),
                async |tx: &mut DB::Connection| {
                    insert(tx, 7).await?;
                    entered.notify_one();
                    go.notified().await;
                    Ok::<_, Trouble>(runs.one())
                },
            )
        });
        let others = async {
            entered.notified().await;
            // The pool has two connections, and 99 calls wait.
            for _ in 0..3 {
                let free = timeout(MAX_WAIT, pool.acquire()).await;
                drop(free.unwrap().unwrap());
            }
            go.notify_one();
        };
        let (answers, ()) = tokio::join!(join_all(calls), others);
        for answer in answers {
            assert_eq!(answer.unwrap(), 1);
        }
        assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (1, 1));
        // A later call reads the row.
        let again = paying(&handle).replay().run_in_new(
            &pool,
            Retry::with_row(),
            async |_: &mut DB::Connection| Ok::<_, Trouble>(runs.one()),
        );
        assert_eq!(again.await.unwrap(), 1);
    }

    pub(super) async fn if_the_first_call_fails_an_equal_call_runs<DB: Subject>() {
        let (fresh, runs, handle) = (fresh::<DB>().await, Runs::default(), handle());
        let calls = (0..3).map(|_| {
            paying(&handle).replay().run_in_new(
                &fresh.pool,
                Retry::with_row(),
                async |tx: &mut DB::Connection| {
                    insert(tx, 7).await?;
                    match runs.one() {
                        1 => Err(Trouble::Declined),
                        run => Ok(run),
                    }
                },
            )
        });
        let answers = join_all(calls).await;
        let declined = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!((declined, runs.count()), (1, 2), "{answers:?}");
        assert_eq!(payments(&fresh.pool, 7).await, 1);
    }

    pub(super) async fn a_dropped_call_passes_its_turn<DB: Subject>() {
        let (fresh, handle) = (fresh::<DB>().await, handle());
        let (entered, pool) = (Notify::new(), two(&fresh));
        let first = paying(&handle).replay().run_in_new(
            &pool,
            Retry::with_row(),
            async |tx: &mut DB::Connection| {
                insert(tx, 7).await?;
                entered.notify_one();
                std::future::pending::<Result<u32, Trouble>>().await
            },
        );
        tokio::select! {
            _ = first => panic!("the body never ends"),
            () = entered.notified() => {}
        }
        let second = paying(&handle).replay().run_in_new(
            &pool,
            Retry::with_row(),
            async |tx: &mut DB::Connection| {
                insert(tx, 7).await?;
                Ok::<_, Trouble>(2)
            },
        );
        assert_eq!(second.await.unwrap(), 2);
        assert_eq!(payments(&fresh.pool, 7).await, 1);
    }

    pub(super) async fn a_call_that_waits_too_long_is_refused<DB: Subject>() {
        let (fresh, handle) = (fresh::<DB>().await, handle());
        let (pool, body) = (&fresh.pool, std::future::pending::<Result<u32, Trouble>>);
        let begin = || {
            let call = paying(&handle).wait(Duration::from_millis(10));
            call.replay()
                .run_in_new(pool, Retry::with_row(), async |_: &mut DB::Connection| {
                    body().await
                })
        };
        let mut first = Box::pin(begin());
        assert!(first.as_mut().now_or_never().is_none());
        let refused = begin().await.unwrap_err();
        assert!(
            matches!(refused, Trouble::Guard(Error::InProgress(_))),
            "{refused}"
        );
    }

    pub(super) async fn another_payload_is_refused_while_the_first_call_runs<DB: Subject>() {
        let (fresh, handle, body) = (fresh::<DB>().await, handle(), Body::default());
        let other = async {
            body.entered.notified().await;
            let entered = Instant::now();
            sleep(Duration::from_millis(20)).await;
            let at_least = entered.elapsed();
            let refused = pay(&handle, &fresh.pool, 9, &body).await.unwrap_err();
            let age = assert_is_mismatch(&refused).age();
            assert!(age >= at_least, "{age:?} of {at_least:?}");
            body.go.notify_one();
            refused
        };
        let (first, refused) = tokio::join!(pay(&handle, &fresh.pool, 5, &body), other);
        assert_eq!(first.unwrap(), 5);
        let refused = [
            refused,
            pay(&handle, &fresh.pool, 9, &body).await.unwrap_err(),
        ];
        for refused in refused {
            assert_is_mismatch(&refused);
        }
        assert_eq!(payments(&fresh.pool, 7).await, 1);
    }

    /// It waits for a call of another process, whose payload it may not have itself.
    pub(super) async fn a_call_without_a_row_refuses_no_other_payload<DB: Subject>() {
        let (fresh, body) = (fresh::<DB>().await, Body::default());
        let (here, there) = (handle(), handle());
        let here = async {
            body.entered.notified().await;
            let mut other = Box::pin(pay(&here, &fresh.pool, 9, &body));
            assert!(other.as_mut().now_or_never().is_none());
            let mut equal = Box::pin(pay(&here, &fresh.pool, 5, &body));
            assert!(equal.as_mut().now_or_never().is_none());
            body.go.notify_one();
            tokio::join!(other, equal)
        };
        let (there, (other, equal)) = tokio::join!(pay(&there, &fresh.pool, 5, &body), here);
        assert_eq!((there.unwrap(), equal.unwrap()), (5, 5));
        assert_is_mismatch(&other.unwrap_err());
    }

    /// Its row is gone as soon as the transaction is rolled back.
    pub(super) async fn a_call_that_is_rolled_back_refuses_no_other_payload<DB: Subject>() {
        let (fresh, handle) = (fresh::<DB>().await, handle());
        let (failed, body) = (Notify::new(), Body::default());
        let first = paying(&handle).payload(&5).replay().run_in_new(
            &fresh.pool,
            Retry::with_row().tries(1),
            async |tx: &mut DB::Connection| {
                insert(tx, 7).await?;
                let conflict = DB::conflict(&fresh.pool, tx).await;
                failed.notify_one();
                Err::<u32, _>(Trouble::Sql(conflict))
            },
        );
        body.go.notify_one();
        let other = async {
            failed.notified().await;
            pay(&handle, &fresh.pool, 9, &body).await
        };
        let (first, other) = tokio::join!(first, other);
        first.unwrap_err();
        assert_eq!(other.unwrap(), 9);
    }

    /// The body of a call, which ends when the test says so.
    #[derive(Default)]
    struct Body {
        entered: Notify,
        go: Notify,
    }

    async fn pay<DB: Subject>(
        handle: &Idempotency,
        pool: &Pool<DB>,
        cents: u32,
        body: &Body,
    ) -> Result<u32, Trouble> {
        let call = paying(handle).payload(&cents).wait(MAX_WAIT).replay();
        let body = async |tx: &mut DB::Connection| {
            insert(tx, 7).await?;
            body.entered.notify_one();
            body.go.notified().await;
            Ok::<_, Trouble>(cents)
        };
        call.run_in_new(pool, Retry::with_row(), body).await
    }

    fn assert_is_mismatch(refused: &Trouble) -> &Duplicate {
        match refused {
            Trouble::Guard(Error::PayloadMismatch(duplicate)) => duplicate,
            other => panic!("{other}"),
        }
    }

    pub(super) async fn all_of_a_conflict_runs_again<DB: Subject>() {
        let (fresh, runs, handle) = (fresh::<DB>().await, Runs::default(), handle());
        let policy = Retry::with_row().pauses(Duration::from_millis(1), Duration::from_millis(5));
        for (policy, expected) in [(policy.tries(1), None), (policy, Some(3))] {
            let paid = paying(&handle).replay().run_in_new(
                &fresh.pool,
                policy,
                async |tx: &mut DB::Connection| {
                    insert(tx, 7).await?;
                    match runs.one() {
                        1 | 2 => Err(Trouble::Sql(DB::conflict(&fresh.pool, tx).await)),
                        run => Ok(run),
                    }
                },
            );
            assert_eq!(paid.await.ok(), expected);
        }
        assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (3, 1));
    }

    /// The transaction can be rolled back, so the lost connection is one to another service, which may have done its work.
    pub(super) async fn a_lost_connection_of_another_service_does_not_run_the_body_again<
        DB: Subject,
    >() {
        let (fresh, runs, handle) = (fresh::<DB>().await, Runs::default(), handle());
        let paid = paying(&handle).replay().run_in_new(
            &fresh.pool,
            Retry::with_row(),
            async |tx: &mut DB::Connection| {
                insert(tx, 7).await?;
                runs.one();
                Err::<u32, _>(Trouble::Sql(lost()))
            },
        );
        paid.await.unwrap_err();
        assert_eq!((runs.count(), payments(&fresh.pool, 7).await), (1, 0));
    }

    pub(super) async fn calls_on_two_databases_are_not_equal<DB: Subject>() {
        let (one, other, handle) = (fresh::<DB>().await, fresh::<DB>().await, handle());
        let pay = async |pool: &Pool<DB>| {
            let paid = paying(&handle).replay().run_in_new(
                pool,
                Retry::with_row(),
                async |tx: &mut DB::Connection| {
                    insert(tx, 7).await?;
                    Ok::<_, Trouble>(7)
                },
            );
            paid.await.unwrap()
        };
        tokio::join!(pay(&one.pool), pay(&other.pool));
        for fresh in [one, other] {
            assert_eq!(payments(&fresh.pool, 7).await, 1);
        }
    }
}

fn paying(handle: &Idempotency) -> GuardedCall {
    handle.call("orders.pay").key(&7).ttl(HOUR).wait(MAX_WAIT)
}

/// PostgreSQL answers the `COMMIT` of such a transaction without an error, and rolls it back.
#[tokio::test]
async fn an_error_of_postgres_that_the_body_ignores_is_no_success() {
    let (fresh, handle) = (fresh::<Postgres>().await, handle());
    let pay = async |ignores: bool| {
        let body = async |tx: &mut PgConnection| {
            insert(tx, 7).await?;
            if ignores {
                // There is such a row.
                let failed = tx.execute("INSERT INTO account VALUES (1, 5)").await;
                failed.unwrap_err();
            }
            Ok::<_, Trouble>(())
        };
        let call = paying(&handle);
        call.run_in_new(&fresh.pool, Retry::with_row(), body).await
    };
    let refused = pay(true).await.unwrap_err();
    let is_refused = matches!(refused, Trouble::Guard(Error::Unavailable(_)));
    assert!(is_refused, "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains("return the error of every statement"),
        "{text}"
    );
    assert_eq!(payments(&fresh.pool, 7).await, 0);
    // Its row is not committed either.
    pay(false).await.unwrap();
    assert_eq!(payments(&fresh.pool, 7).await, 1);
}

async fn a_connection_cut_at_any_message_is_retried<DB: Server>() {
    let fresh = fresh::<DB>().await;
    let port = fresh.url.parse::<Url>().unwrap().port().unwrap();
    let mut repeated = 0;
    for (order, point) in (1..).zip(Point::all()) {
        let wire = Wire::cut(port, point);
        let pool = PoolOptions::<DB>::new().max_connections(1);
        let pool = pool.connect_lazy(&wire.url(&fresh.url)).unwrap();
        let (runs, handle) = (Runs::default(), handle());
        // A server may notice a closed connection late.
        let call = handle
            .call("orders.pay")
            .key(&order)
            .ttl(HOUR)
            .wait(MAX_WAIT);
        let paid =
            call.replay()
                .run_in_new(&pool, Retry::with_row(), async |tx: &mut DB::Connection| {
                    runs.one();
                    insert(tx, order).await?;
                    Ok::<_, Trouble>(order)
                });
        let paid = timeout(MAX_WAIT, paid).await.unwrap();
        pool.close().await;
        assert_eq!(paid.unwrap(), order);
        assert_eq!(payments(&fresh.pool, order).await, 1, "{point:?}");
        repeated += u32::from(runs.count() > 1);
        if !wire.reached() {
            break;
        }
    }
    assert!(repeated > 0);
}

fn lost() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())
}

/// A pool of two connections.
fn two<DB: Kind>(fresh: &Fresh<DB>) -> Pool<DB> {
    let options = (*fresh.pool.connect_options()).clone();
    PoolOptions::new()
        .max_connections(2)
        .connect_lazy_with(options)
}
