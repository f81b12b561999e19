//! SQLite, which has no network connection and one writer at a time.

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{ConnectOptions as _, SqlitePool};

type Db = sqlx::Sqlite;
type Connection = sqlx::SqliteConnection;

/// The error that another writer gets while the transaction is open.
async fn conflict(pool: &SqlitePool, _: &mut Tx<'_>) -> sqlx::Error {
    let mut other = impatient(pool).connect().await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap_err()
}

fn impatient(pool: &SqlitePool) -> SqliteConnectOptions {
    (*pool.connect_options())
        .clone()
        .busy_timeout(Duration::ZERO)
}

every_database!();

#[tokio::test]
async fn a_busy_file_is_retried_until_its_writer_has_ended() {
    let fresh = fresh().await;
    let asked = Arc::new(Runs::default());
    let count = Arc::clone(&asked);
    let impatient = SqlitePoolOptions::new()
        .max_connections(1)
        .before_acquire(move |_, _| {
            count.one();
            Box::pin(async { Ok(true) })
        })
        .connect_with(impatient(&fresh.pool))
        .await
        .unwrap();
    let mut writer = fresh.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let paid = async {
        sql::retry(&impatient, quickly().tries(u32::MAX), |tx| {
            Box::pin(pay(tx, 7))
        })
        .await
    };
    let ends = async {
        while asked.count() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        insert(&mut writer, 8).await.unwrap();
        writer.commit().await.unwrap();
    };
    let (paid, ()) = timeout(MAX_WAIT, async { tokio::join!(paid, ends) })
        .await
        .unwrap();
    assert_eq!(paid.unwrap(), 7);
    assert_eq!(payments(&fresh.pool, 7).await, 1);
}

#[tokio::test]
async fn a_retry_begins_as_a_writer_so_that_its_reads_stay_valid() {
    let fresh = fresh().await;
    let other = impatient(&fresh.pool);
    let paid = sql::retry(&fresh.pool, Retry::when_nothing_was_done().tries(1), |tx| {
        Box::pin(async {
            tx.execute("SELECT * FROM account").await?;
            let mut other = other.connect().await?;
            assert!(insert(&mut other, 8).await.is_err());
            insert(tx, 7).await?;
            Ok::<_, Trouble>(())
        })
    });
    paid.await.unwrap();
    assert_eq!(payments(&fresh.pool, 7).await, 1);
}
