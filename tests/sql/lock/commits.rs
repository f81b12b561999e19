//! A lock is taken when its statement is committed, not when the statement returns its row.

use std::time::Duration;

use idempotent_sql::sql::{Lock, sqlx};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};

use crate::lock::databases::fresh;

const LONG: Duration = Duration::from_mins(10);

/// With a rollback journal, a reader can block the commit of a writer whose statement has already returned its row.
#[tokio::test]
async fn a_lock_that_sqlite_cannot_commit_is_not_taken() {
    let fresh = fresh::<sqlx::Sqlite>().await;
    let options: SqliteConnectOptions = fresh.url.parse().unwrap();
    let options = options
        .journal_mode(SqliteJournalMode::Delete)
        .busy_timeout(Duration::from_millis(50));
    fresh.pool.close().await;
    let pool = SqlitePoolOptions::new()
        .max_connections(2)
        .connect_with(options)
        .await
        .unwrap();
    let lock = Lock::new(pool.clone());

    let mut reader = pool.begin().await.unwrap();
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM idempotence_lock")
        .fetch_one(&mut *reader)
        .await
        .unwrap();
    assert_eq!(count, 0);
    let refused = lock.take("trade:42", LONG).await.unwrap_err();
    assert!(refused.to_string().contains("locked"), "{refused}");

    // The transaction of the refused statement has ended when its connection is back in the pool.
    drop(pool.acquire().await.unwrap());
    reader.commit().await.unwrap();
    let held = lock.take("trade:42", LONG).await.unwrap().unwrap();
    assert_eq!(held.fence(), 1);
}
