//! Connections that the server has closed, on a pool that does not test them.

use std::time::Duration;

use idempotent_sql::sql::{Lock, sqlx};
use sqlx::Connection as _;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::Mutex;

use crate::lock::databases::{Subject, fresh};

const LONG: Duration = Duration::from_mins(10);
const CONNECTIONS: u32 = 4;

#[tokio::test]
async fn a_lock_survives_connections_that_postgres_has_closed() {
    let fresh = fresh::<sqlx::Postgres>().await;
    let options = PgPoolOptions::new().max_connections(CONNECTIONS);
    let pool = options.test_before_acquire(false).connect(&fresh.url).await;
    let killer = Mutex::new(fresh.pool.acquire().await.unwrap());
    a_lock_survives(pool.unwrap(), || async {
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let mut killer = killer.lock().await;
        sqlx::raw_sql(others).execute(&mut **killer).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_lock_survives_connections_that_mariadb_has_closed() {
    let fresh = fresh::<sqlx::MySql>().await;
    let options = MySqlPoolOptions::new().max_connections(CONNECTIONS);
    let pool = options.test_before_acquire(false).connect(&fresh.url).await;
    let killer = Mutex::new(fresh.pool.acquire().await.unwrap());
    a_lock_survives(pool.unwrap(), || async {
        let mut killer = killer.lock().await;
        let others = "SELECT id FROM information_schema.processlist \
            WHERE db = database() AND id <> connection_id()";
        let others: Vec<i64> = sqlx::query_scalar(others)
            .fetch_all(&mut **killer)
            .await
            .unwrap();
        for id in others {
            let kill = sqlx::AssertSqlSafe(format!("KILL {id}"));
            sqlx::raw_sql(kill).execute(&mut **killer).await.unwrap();
        }
    })
    .await;
}

async fn a_lock_survives<DB: Subject, F: Future<Output = ()>>(
    pool: sqlx::Pool<DB>,
    close_all: impl Fn() -> F,
) {
    // The pool has opened all its connections, and the server closes all of them.
    let break_all = async || {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut connection = pool.acquire().await.unwrap();
            if connection.ping().await.is_err() {
                connection.close_on_drop();
            } else {
                connections.push(connection);
            }
        }
        drop(connections);
        while pool.num_idle() < pool.size() as usize {
            tokio::task::yield_now().await;
        }
        close_all().await;
    };
    let lock = Lock::new(pool.clone());
    break_all().await;
    let mut held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    assert_eq!(held.fence(), 1);
    break_all().await;
    assert!(held.renew(LONG).await.unwrap());
    break_all().await;
    assert!(held.release().await.unwrap());
    let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    assert_eq!(held.fence(), 2);
}
