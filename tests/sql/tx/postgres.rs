//! The behaviour that only PostgreSQL has.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotent_runtime::Error;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Postgres};
use tokio::time::timeout;

use crate::tx::databases::{insert, pay, pay_and_commit, pool};
use crate::tx::{MAX_WAIT, Trouble, causes, handle, is_retryable, paying};
use support::blocked::Blocked as _;

async fn lock_timeout(tx: &mut PgConnection) -> String {
    let timeout = sqlx::query_scalar("SHOW lock_timeout");
    timeout.fetch_one(tx).await.unwrap()
}

#[tokio::test]
async fn the_lock_timeout_of_the_caller_is_restored() {
    let (pool, (handle, _)) = (pool::<Postgres>().await, handle());
    for (ends, receipt) in [("COMMIT", 1), ("ROLLBACK", 2), ("", 0)] {
        pool.execute("DELETE FROM idempotence").await.unwrap();
        let mut first = pool.begin().await.unwrap();
        pay(&handle, &mut first, 1).await.unwrap();

        let mut second = pool.begin().await.unwrap();
        second
            .execute("SET LOCAL lock_timeout = '77s'")
            .await
            .unwrap();
        let wait = if ends.is_empty() {
            Duration::from_millis(50)
        } else {
            MAX_WAIT
        };
        let duplicate = async {
            let body = async |_: &mut PgConnection| Ok::<_, Trouble>(2_u32);
            let paid = paying(&handle, 7)
                .replay()
                .wait(wait)
                .run_in(&mut second, body)
                .await;
            (second, paid)
        };
        let end = async {
            // Without an end, the duplicate stops waiting.
            if !ends.is_empty() {
                Postgres::blocked(&pool, 1).await;
                first.execute(ends).await.unwrap();
            }
        };
        let ((mut second, paid), ()) = tokio::join!(duplicate, end);
        assert_eq!(paid.unwrap_or(0), receipt, "{ends}");
        assert_eq!(lock_timeout(&mut second).await, "77s", "{ends}");
        insert(&mut second, 8).await.unwrap();
        second.commit().await.unwrap();
    }
}

#[tokio::test]
async fn duplicates_of_a_done_call_do_not_wait_for_each_other() {
    let (pool, (handle, _)) = (pool::<Postgres>().await, handle());
    let mut first = pool.begin().await.unwrap();
    pay(&handle, &mut first, 1).await.unwrap();

    let mut waiting = Vec::new();
    for receipt in 2..5 {
        let mut tx = pool.begin().await.unwrap();
        let handle = handle.clone();
        waiting.push(tokio::spawn(async move {
            let paid = pay(&handle, &mut tx, receipt).await.unwrap();
            (tx, paid)
        }));
    }
    Postgres::blocked(&pool, 1).await;
    first.commit().await.unwrap();
    // All duplicates are answered before one of their transactions has ended.
    let waited = timeout(MAX_WAIT, join_all(waiting)).await.unwrap();
    assert!(waited.iter().all(|waited| waited.as_ref().unwrap().1 == 1));

    let mut late = pool.begin().await.unwrap();
    let body = async |_: &mut PgConnection| Ok::<_, Trouble>(9_u32);
    let paid = paying(&handle, 7)
        .replay()
        .wait(Duration::ZERO)
        .run_in(&mut late, body)
        .await;
    assert_eq!(paid.unwrap(), 1);
}

#[tokio::test]
async fn a_snapshot_older_than_the_winner_is_retryable() {
    let (pool, (handle, _)) = (pool::<Postgres>().await, handle());
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        pool.execute("DELETE FROM idempotence").await.unwrap();
        let set = format!("SET TRANSACTION ISOLATION LEVEL {isolation}");
        let old = async || {
            let mut tx = pool.begin().await.unwrap();
            tx.execute(AssertSqlSafe(&*set)).await.unwrap();
            tx.execute("SELECT count(*) FROM payment").await.unwrap();
            tx
        };
        let mut older = old().await;
        assert_eq!(pay_and_commit(&handle, &pool, 1).await.unwrap(), 1);
        let refused = pay(&handle, &mut older, 2).await.unwrap_err().refusal();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
        assert!(is_retryable(&refused), "{}", causes(&refused));
        insert(&mut older, 8).await.unwrap();
        older.commit().await.unwrap();

        let mut younger = old().await;
        assert_eq!(pay(&handle, &mut younger, 3).await.unwrap(), 1);
        let body = async |_: &mut PgConnection| Ok::<_, Trouble>(());
        paying(&handle, 9).run_in(&mut younger, body).await.unwrap();
        younger.commit().await.unwrap();
    }
}

#[tokio::test]
async fn at_every_isolation_a_duplicate_stops_waiting_in_time() {
    let (pool, (handle, _)) = (pool::<Postgres>().await, handle());
    let wait = Duration::from_millis(300);
    for isolation in [
        "READ UNCOMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ] {
        let statement = format!("BEGIN ISOLATION LEVEL {isolation}");
        let isolated = async || pool.begin_with(AssertSqlSafe(&*statement)).await.unwrap();
        pool.execute("DELETE FROM idempotence").await.unwrap();
        let mut first = isolated().await;
        pay(&handle, &mut first, 1).await.unwrap();
        let mut second = isolated().await;
        let began = Instant::now();
        let duplicate = paying(&handle, 7).replay().wait(wait).run_in(
            &mut second,
            async |_: &mut PgConnection| -> Result<u32, Trouble> {
                panic!("two equal calls run at the same time")
            },
        );
        let refused = timeout(MAX_WAIT, duplicate).await.unwrap();
        let refused = refused.unwrap_err().refusal();
        assert!(
            matches!(refused, Error::InProgress(_)),
            "{isolation}: {refused}"
        );
        let waited = began.elapsed();
        assert!(waited >= wait, "{isolation}: {waited:?}");
        first.rollback().await.unwrap();
        assert_eq!(
            pay(&handle, &mut second, 2).await.unwrap(),
            2,
            "{isolation}"
        );
        second.commit().await.unwrap();
    }
}
