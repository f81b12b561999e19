//! Functions whose guard begins the transaction, in each form: the first call runs, the second call gets its result.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use idempotence::sql::migrate;
use idempotence::sql::sqlx::sqlite::SqlitePoolOptions;
use idempotence::sql::sqlx::{self, Executor, SqliteConnection, SqlitePool};
use idempotence::{Error, Idempotency, MemoryStore, idempotent};

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Refused(#[from] Error),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

async fn pool() -> SqlitePool {
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    migrate(&pool).await.unwrap();
    let table = "CREATE TABLE payment (order_no TEXT)";
    pool.execute(table).await.unwrap();
    pool
}

/// Inserts a payment, and returns the number of payments.
async fn insert(tx: &mut SqliteConnection, order_no: &str) -> sqlx::Result<i64> {
    let insert = sqlx::query("INSERT INTO payment VALUES (?)").bind(order_no);
    tx.execute(insert).await?;
    let count = sqlx::query_scalar("SELECT count(*) FROM payment");
    count.fetch_one(tx).await
}

fn lost() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())
}

/// Makes two equal calls. The second gets the result of the first.
macro_rules! runs_once {
    (|$pool:ident| $call:expr) => {
        let $pool = pool().await;
        let calls = async {
            for _ in 0..2 {
                assert_eq!($call.await.unwrap(), 1);
            }
        };
        Idempotency::new(MemoryStore::new()).scope(calls).await;
        let mut connection = $pool.acquire().await.unwrap();
        assert_eq!(insert(&mut connection, "0").await.unwrap(), 2);
    };
}

#[idempotent(key = "order_no", ttl = "7d", replay = true, begin = pool, tx = tx)]
async fn pay(pool: &SqlitePool, order_no: &str) -> Result<i64, Trouble> {
    Ok(insert(tx, order_no).await?)
}

#[idempotent(key = "order_no", ttl = "7d", replay = true, begin = pool, tx = db)]
async fn pay_owned(pool: SqlitePool, order_no: String, mut notes: Vec<u8>) -> Result<i64, Trouble> {
    notes.push(1);
    let order_no = order_no.into_boxed_str();
    Ok(insert(db, &order_no).await?)
}

#[idempotent(key = "order_no", ttl = "7d", replay = true, begin = pool, tx = tx, retry = false)]
async fn pay_once(pool: &SqlitePool, order_no: String, permit: Permit) -> Result<i64, Trouble> {
    drop(permit);
    Ok(insert(tx, &order_no).await?)
}

/// An argument that cannot be copied.
struct Permit;

impl Drop for Permit {
    fn drop(&mut self) {}
}

#[idempotent(key = "order_no", ttl = "7d", replay = true, begin = pool, tx = tx)]
fn pay_in_a_future<'a>(
    pool: &'a SqlitePool,
    order_no: &'a str,
) -> impl Future<Output = Result<i64, Trouble>> + Send + 'a {
    async move { Ok(insert(tx, order_no).await?) }
}

#[idempotent(key = "order_no", ttl = "7d", replay = true, begin = pool, tx = tx)]
async fn pay_by_anyhow(pool: Arc<SqlitePool>, order_no: u64) -> anyhow::Result<i64> {
    Ok(insert(tx, &order_no.to_string()).await?)
}

struct Shop {
    pool: SqlitePool,
}

impl Shop {
    #[idempotent(key = "order_no", ttl = "7d", replay = true, begin = self.pool, tx = tx)]
    async fn pay(&self, order_no: &str) -> Result<i64, Trouble> {
        assert!(!self.pool.is_closed());
        Ok(insert(tx, order_no).await?)
    }
}

#[async_trait]
trait Pays {
    async fn pay_by_trait(&self, order_no: String) -> Result<i64, Trouble>;
}

#[async_trait]
impl Pays for Shop {
    #[idempotent(key = "order_no", ttl = "7d", replay = true, begin = self.pool, tx = tx)]
    async fn pay_by_trait(&self, order_no: String) -> Result<i64, Trouble> {
        Ok(insert(tx, &order_no).await?)
    }
}

#[tokio::test]
async fn each_form_of_function_is_committed_once() {
    runs_once!(|pool| pay(&pool, "7"));
    runs_once!(|pool| pay_owned(pool.clone(), "7".to_owned(), Vec::new()));
    runs_once!(|pool| pay_once(&pool, "7".to_owned(), Permit));
    runs_once!(|pool| pay_in_a_future(&pool, "7"));
    runs_once!(|pool| pay_by_anyhow(Arc::new(pool.clone()), 7));
    runs_once!(|pool| Shop { pool: pool.clone() }.pay("7"));
    runs_once!(|pool| Shop { pool: pool.clone() }.pay_by_trait("7".to_owned()));
}

#[tokio::test]
async fn the_future_of_a_guard_that_begins_is_send() {
    fn spawned<T: Send>(_: Pin<Box<dyn Future<Output = T> + Send + '_>>) {}
    let pool = pool().await;
    spawned(Box::pin(pay(&pool, "7")));
    spawned(Box::pin(pay_once(&pool, "7".to_owned(), Permit)));
}

#[idempotent(key = "order_no", ttl = "7d", begin = pool, tx = tx)]
async fn fail_once(pool: &SqlitePool, order_no: &str, runs: &AtomicU32) -> Result<u32, Trouble> {
    insert(tx, order_no).await?;
    match runs.fetch_add(1, Ordering::SeqCst) {
        0 => Err(lost().into()),
        run => Ok(run),
    }
}

#[tokio::test]
async fn a_lost_connection_of_another_service_does_not_run_the_body_again() {
    let (pool, runs) = (pool().await, AtomicU32::new(0));
    let calls = async {
        fail_once(&pool, "7", &runs).await.unwrap_err();
        assert_eq!(fail_once(&pool, "7", &runs).await.unwrap(), 1);
        let done = fail_once(&pool, "7", &runs).await.unwrap_err();
        assert!(
            matches!(done, Trouble::Refused(Error::AlreadyDone(_))),
            "{done}"
        );
    };
    Idempotency::new(MemoryStore::new()).scope(calls).await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    // The first call was rolled back.
    let mut connection = pool.acquire().await.unwrap();
    assert_eq!(insert(&mut connection, "0").await.unwrap(), 2);
}
