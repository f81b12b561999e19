//! The behaviour that only MariaDB has.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotence_test_servers::MariaDbServer;
use idempotent_runtime::Error;
use sqlx::{AssertSqlSafe, Executor as _, MySql, MySqlConnection, Transaction};
use tokio::time::timeout;

use crate::tx::databases::{Tx, insert, pay, pay_and_commit, payments, pool, pool_at, rows};
use crate::tx::{MAX_WAIT, Trouble, causes, handle, is_retryable, paying, take_outcomes};
use support::blocked::Blocked as _;

#[tokio::test]
async fn a_deadlock_after_a_rollback_is_not_treated_as_a_duplicate() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    for _ in 0..20 {
        pool.execute("DELETE FROM idempotence").await.unwrap();
        pool.execute("DELETE FROM payment").await.unwrap();
        let mut first = pool.begin().await.unwrap();
        pay(&handle, &mut first, 1).await.unwrap();
        let others = [2, 3].map(|receipt| {
            let (handle, pool) = (handle.clone(), pool.clone());
            tokio::spawn(async move { pay_and_commit(&handle, &pool, receipt).await })
        });
        MySql::blocked(&pool, 2).await;
        first.rollback().await.unwrap();
        let mut receipts = Vec::new();
        for paid in join_all(others).await {
            match paid.unwrap().map_err(Trouble::refusal) {
                Ok(receipt) => receipts.push(receipt),
                Err(error) => assert!(is_retryable(&error), "{}", causes(&error)),
            }
        }
        assert!(
            receipts.iter().all(|receipt| *receipt == receipts[0]),
            "{receipts:?}"
        );
        assert_eq!(payments(&pool).await, i64::from(!receipts.is_empty()));
    }
}

#[tokio::test]
async fn a_duplicate_with_an_older_snapshot_sees_the_winner() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    let mut older = pool.begin().await.unwrap();
    older
        .execute("SELECT count(*) FROM idempotence")
        .await
        .unwrap();
    assert_eq!(pay_and_commit(&handle, &pool, 1).await.unwrap(), 1);
    assert_eq!(pay(&handle, &mut older, 2).await.unwrap(), 1);
    let seen = "SELECT count(*) FROM payment";
    let seen: i64 = sqlx::query_scalar(seen)
        .fetch_one(&mut *older)
        .await
        .unwrap();
    assert_eq!(seen, 0, "the snapshot must be older than the winner");
}

/// MariaDB 11.6 and newer refuse the statement by default.
#[tokio::test]
async fn with_isolated_snapshots_a_snapshot_older_than_the_winner_is_retryable() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    let mut connection = pool.acquire().await.unwrap();
    let isolate = "SET innodb_snapshot_isolation = ON";
    connection.execute(isolate).await.unwrap();
    let mut older = Transaction::begin(connection, None).await.unwrap();
    let look = "SELECT count(*) FROM idempotence";
    older.execute(look).await.unwrap();
    assert_eq!(pay_and_commit(&handle, &pool, 1).await.unwrap(), 1);
    let refused = pay(&handle, &mut older, 2).await.unwrap_err().refusal();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    assert!(is_retryable(&refused), "{}", causes(&refused));
}

#[tokio::test]
async fn a_lock_around_the_row_is_not_a_duplicate() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    let mut blocker = pool.begin().await.unwrap();
    let lock = "SELECT * FROM idempotence WHERE `key` > '' FOR UPDATE";
    blocker.execute(lock).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let body = async |_: &mut MySqlConnection| Ok::<_, Trouble>(());
    let wait = Duration::from_millis(100);
    let paid = paying(&handle, 7).wait(wait).run_in(&mut tx, body).await;
    let refused = paid.unwrap_err().refusal();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    assert!(is_retryable(&refused), "{}", causes(&refused));
    insert(&mut tx, 8).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(payments(&pool).await, 1);
}

#[tokio::test]
async fn a_lock_timeout_that_ends_the_transaction_is_retryable() {
    let server = MariaDbServer::start_with(["--innodb-rollback-on-timeout=ON"]).unwrap();
    let (pool, (handle, _)) = (
        pool_at::<MySql>(&server.database().unwrap()).await,
        handle(),
    );
    let mut first = pool.begin().await.unwrap();
    pay(&handle, &mut first, 1).await.unwrap();
    let mut second = pool.begin().await.unwrap();
    let body = async |_: &mut MySqlConnection| Ok::<_, Trouble>(());
    let wait = Duration::from_millis(100);
    let paid = paying(&handle, 7)
        .wait(wait)
        .run_in(&mut second, body)
        .await;
    let refused = paid.unwrap_err().refusal();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    assert!(is_retryable(&refused), "{}", causes(&refused));
}

#[tokio::test]
async fn the_lock_wait_timeout_of_the_caller_stays() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    tx.execute("SET SESSION innodb_lock_wait_timeout = 77")
        .await
        .unwrap();
    for receipt in [1, 1] {
        assert_eq!(pay(&handle, &mut tx, receipt).await.unwrap(), receipt);
        let timeout = sqlx::query_scalar("SELECT @@innodb_lock_wait_timeout");
        let timeout: u64 = timeout.fetch_one(&mut *tx).await.unwrap();
        assert_eq!(timeout, 77);
    }
}

#[tokio::test]
async fn a_transaction_that_the_server_has_ended_is_refused() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    for (number, sql_mode) in ["STRICT_ALL_TABLES", ""].into_iter().enumerate() {
        let mut tx = pool.begin().await.unwrap();
        let set = format!("SET SESSION sql_mode = '{sql_mode}'; SAVEPOINT start");
        tx.execute(sqlx::raw_sql(AssertSqlSafe(set))).await.unwrap();
        // The session knows the statement from a call that was not refused.
        pay(&handle, &mut tx, 1).await.unwrap();
        let undo = "ROLLBACK TO SAVEPOINT start";
        tx.execute(undo).await.unwrap();
        // This statement commits the transaction and does not begin another. The client does not notice this, as after a deadlock.
        let ends = format!("CREATE TABLE other_{number} (id INT)");
        tx.execute(AssertSqlSafe(ends)).await.unwrap();
        let error = pay(&handle, &mut tx, 1).await.unwrap_err();
        let error = Trouble::refusal(error);
        assert!(
            matches!(error, Error::Misconfigured(_)),
            "{sql_mode}: {error}"
        );
        tx.rollback().await.unwrap();
        assert_eq!(rows(&pool).await, 0, "{sql_mode}");
        assert_eq!(payments(&pool).await, 0, "{sql_mode}");
    }
    pay_and_commit(&handle, &pool, 2).await.unwrap();
}

#[tokio::test]
async fn a_second_duplicate_is_also_answered_while_the_first_holds_its_lock() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    pay_and_commit(&handle, &pool, 1).await.unwrap();
    // The first duplicate locks the row until its transaction ends.
    let mut first = pool.begin().await.unwrap();
    assert_eq!(pay(&handle, &mut first, 2).await.unwrap(), 1);
    let mut second = pool.begin().await.unwrap();
    let outcomes: Result<u32, Trouble> = paying(&handle, 7)
        .replay()
        .wait(Duration::from_secs(1))
        .run_in(&mut second, async |_: &mut MySqlConnection| Ok(3))
        .await;
    assert_eq!(outcomes.unwrap(), 1);
}

/// After this time the server itself ends a wait.
const LOCK_WAIT_TIMEOUT: Duration = Duration::from_secs(50);

const ISOLATIONS: [&str; 4] = [
    "READ UNCOMMITTED",
    "READ COMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
];

/// Begins a transaction with an isolation level that is set only for this transaction, so its session does not show it.
async fn begin_isolated(pool: &sqlx::MySqlPool, isolation: &str) -> Tx<MySql> {
    let mut connection = pool.acquire().await.unwrap();
    let set = format!("SET TRANSACTION ISOLATION LEVEL {isolation}");
    connection.execute(AssertSqlSafe(set)).await.unwrap();
    Transaction::begin(connection, None).await.unwrap()
}

#[tokio::test]
async fn at_every_isolation_an_answer_comes_from_a_committed_row() {
    let pool = pool::<MySql>().await;
    let wait = Duration::from_secs(1);
    for isolation in ISOLATIONS {
        let (handle, outcomes) = handle();
        pool.execute("DELETE FROM idempotence").await.unwrap();
        let mut first = pool.begin().await.unwrap();
        pay(&handle, &mut first, 1).await.unwrap();
        let mut second = begin_isolated(&pool, isolation).await;
        // The control: at READ UNCOMMITTED a plain read sees the uncommitted row.
        if isolation != "SERIALIZABLE" {
            let seen = sqlx::query("SELECT value FROM idempotence");
            let seen = seen.fetch_all(&mut *second).await.unwrap();
            assert_eq!(seen.len(), usize::from(isolation == "READ UNCOMMITTED"));
        }
        let began = Instant::now();
        let duplicate = paying(&handle, 7).replay().wait(wait).run_in(
            &mut second,
            async |_: &mut MySqlConnection| -> Result<u32, Trouble> {
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
        assert!(
            waited >= wait && waited < LOCK_WAIT_TIMEOUT,
            "{isolation}: {waited:?}"
        );
        first.rollback().await.unwrap();
        // The first call was rolled back, so the call runs again.
        assert_eq!(
            pay(&handle, &mut second, 2).await.unwrap(),
            2,
            "{isolation}"
        );
        second.commit().await.unwrap();
        assert_eq!(take_outcomes(&outcomes), "executed in_progress executed");
    }
}

#[tokio::test]
async fn at_every_isolation_duplicates_do_not_wait_for_each_other() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    pay_and_commit(&handle, &pool, 1).await.unwrap();
    let mut answered = Vec::new();
    for isolation in ISOLATIONS.into_iter().cycle().take(8) {
        let mut tx = begin_isolated(&pool, isolation).await;
        assert_eq!(pay(&handle, &mut tx, 2).await.unwrap(), 1, "{isolation}");
        answered.push(tx);
    }
    assert_eq!(payments(&pool).await, 1);
}

#[tokio::test]
async fn all_duplicates_of_an_open_call_are_answered_together() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
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
    MySql::blocked(&pool, 3).await;
    first.commit().await.unwrap();
    // No transaction of a duplicate has ended yet.
    let waited = timeout(MAX_WAIT, join_all(waiting)).await.unwrap();
    assert!(waited.iter().all(|waited| waited.as_ref().unwrap().1 == 1));
}

#[tokio::test]
async fn a_call_waits_for_an_expired_row_no_longer_than_its_limit() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    pay_and_commit(&handle, &pool, 1).await.unwrap();
    // Another transaction reads the live row, and still has it locked after its expiry.
    let mut answered = pool.begin().await.unwrap();
    assert_eq!(pay(&handle, &mut answered, 2).await.unwrap(), 1);
    let mut late = pool.begin().await.unwrap();
    late.execute("SET TIMESTAMP = UNIX_TIMESTAMP() + 7200")
        .await
        .unwrap();
    let wait = Duration::from_secs(1);
    let body = async |_: &mut MySqlConnection| Ok::<u32, Trouble>(3);
    let began = Instant::now();
    let refused = paying(&handle, 7).wait(wait).run_in(&mut late, body).await;
    let refused = refused.unwrap_err().refusal();
    assert!(is_retryable(&refused), "{}", causes(&refused));
    assert!(began.elapsed() < LOCK_WAIT_TIMEOUT, "{:?}", began.elapsed());
    answered.rollback().await.unwrap();
    paying(&handle, 7).run_in(&mut late, body).await.unwrap();
}

#[tokio::test]
async fn a_claim_does_not_change_the_last_insert_id() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    tx.execute("SELECT LAST_INSERT_ID(42)").await.unwrap();
    for receipt in [1, 1] {
        assert_eq!(pay(&handle, &mut tx, receipt).await.unwrap(), receipt);
        let id = sqlx::query_scalar("SELECT LAST_INSERT_ID()");
        let id: u64 = id.fetch_one(&mut *tx).await.unwrap();
        assert_eq!(id, 42);
    }
}

#[tokio::test]
async fn a_wait_may_be_the_longest_duration() {
    let (pool, (handle, _)) = (pool::<MySql>().await, handle());
    let mut tx = pool.begin().await.unwrap();
    let paid: Result<u32, Trouble> = paying(&handle, 7)
        .wait(Duration::MAX)
        .run_in(&mut tx, async |_: &mut MySqlConnection| Ok(1))
        .await;
    assert_eq!(paid.unwrap(), 1);
}
