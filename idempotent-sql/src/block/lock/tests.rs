//! Statements that are sent twice, because the first reply was lost.
#![allow(clippy::unwrap_used)]

use idempotence_test_servers::{MariaDbServer, PostgresServer};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;

use super::*;

const OWNER: LockOwner = [7; 16];
const LONG: Duration = Duration::from_mins(10);
const SHORT: Duration = Duration::from_millis(100);

async fn a_statement_that_is_sent_twice_counts_once<DB: Database>(pool: Pool<DB>) {
    let lock = Lock::new(pool.clone());
    let name = "sent twice";
    let first = lock.take_as(name, OWNER, LONG).await.unwrap().unwrap();
    let second = taken_shortly(&lock, name).await;
    assert_eq!((first.fence(), second.fence()), (1, 1));
    tokio::time::sleep_until(second.deadline() + SHORT).await;
    assert!(
        lock.take(name, LONG).await.unwrap().is_none(),
        "the second, shorter take must not shorten the first lease"
    );

    let mut connection = pool.acquire().await.unwrap();
    for _ in 0..2 {
        assert!(
            lock::release::<DB>(&mut connection, name, &OWNER)
                .await
                .unwrap()
        );
        assert!(
            !lock::renew::<DB>(&mut connection, name, &OWNER, 1_000_000)
                .await
                .unwrap()
        );
    }
    drop(connection);
    assert_eq!(lock.take(name, LONG).await.unwrap().unwrap().fence(), 2);
}

async fn a_late_statement_changes_nothing<DB: Database>(pool: Pool<DB>) {
    let lock = Lock::new(pool);
    let name = "too late";
    let old = taken_shortly(&lock, name).await;
    let mut new = loop {
        if let Some(new) = lock.take(name, LONG).await.unwrap() {
            break new;
        }
    };
    assert!(lock.take_as(name, OWNER, LONG).await.unwrap().is_none());
    assert!(new.renew(LONG).await.unwrap());
    assert!(new.release().await.unwrap());
    let next = lock.take(name, LONG).await.unwrap().unwrap();
    assert_eq!(next.fence(), old.fence() + 2);
}

/// Takes the lock for a short time, again if the lease expired before the answer: this is an error, and happens on a slow machine.
async fn taken_shortly<DB: Database>(lock: &Lock<DB>, name: &str) -> LockGuard<DB> {
    let deadline = Instant::now() + LONG;
    loop {
        match lock.take_as(name, OWNER, SHORT).await {
            Ok(held) => break held.unwrap(),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

#[tokio::test]
async fn postgres() {
    let url = PostgresServer::shared().unwrap().database().unwrap();
    let pool = PgPoolOptions::new().connect(&url).await.unwrap();
    crate::sql::migrate(&pool).await.unwrap();
    a_statement_that_is_sent_twice_counts_once(pool.clone()).await;
    a_late_statement_changes_nothing(pool).await;
}

#[tokio::test]
async fn mariadb() {
    let url = MariaDbServer::shared().unwrap().database().unwrap();
    let pool = MySqlPoolOptions::new().connect(&url).await.unwrap();
    crate::sql::migrate(&pool).await.unwrap();
    a_statement_that_is_sent_twice_counts_once(pool.clone()).await;
    a_late_statement_changes_nothing(pool).await;
}

#[tokio::test]
async fn sqlite() {
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    crate::sql::migrate(&pool).await.unwrap();
    a_statement_that_is_sent_twice_counts_once(pool.clone()).await;
    a_late_statement_changes_nothing(pool).await;
}
