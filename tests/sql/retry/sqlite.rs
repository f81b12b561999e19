//! What only SQLite does, which has no network connection and one writer at a time.

use std::sync::Arc;
use std::time::Duration;

use idempotent_sql::sql::{self, Retry};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{ConnectOptions as _, Executor as _, Sqlite};
use tokio::time::timeout;

use crate::retry::databases::{fresh, impatient, insert, pay, payments, quickly};
use crate::retry::{MAX_WAIT, Runs, Trouble};

#[tokio::test]
async fn a_busy_file_is_retried_until_its_writer_has_ended() {
    let fresh = fresh::<Sqlite>().await;
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
    let fresh = fresh::<Sqlite>().await;
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
