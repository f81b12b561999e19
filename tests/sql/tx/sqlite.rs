//! The behaviour that only SQLite has.

use std::time::Duration;

use idempotent_runtime::Error;
use sqlx::{Executor as _, Sqlite, SqliteConnection};

use crate::tx::databases::{handle_on, pay, pay_and_commit, pool};
use crate::tx::{Trouble, causes, handle, is_retryable, paying};

#[tokio::test]
async fn a_snapshot_older_than_the_winner_is_retryable() {
    let (pool, (handle, _)) = (pool::<Sqlite>().await, handle());
    let mut older = pool.begin().await.unwrap();
    older
        .execute("SELECT count(*) FROM idempotence")
        .await
        .unwrap();
    assert_eq!(pay_and_commit(&handle, &pool, 1).await.unwrap(), 1);
    let refused = pay(&handle, &mut older, 2).await.unwrap_err().refusal();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    assert!(is_retryable(&refused), "{}", causes(&refused));
    older.rollback().await.unwrap();
    let mut again = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(pay(&handle, &mut again, 3).await.unwrap(), 1);
}

#[tokio::test]
async fn the_busy_timeout_of_the_caller_is_restored() {
    let (pool, (handle, _)) = (pool::<Sqlite>().await, handle());
    let mut first = pool.begin().await.unwrap();
    pay(&handle, &mut first, 1).await.unwrap();
    let mut second = pool.begin().await.unwrap();
    second.execute("PRAGMA busy_timeout = 7777").await.unwrap();
    let body = async |_: &mut SqliteConnection| Ok::<_, Trouble>(());
    let wait = Duration::from_millis(10);
    let refused = paying(&handle, 7)
        .wait(wait)
        .run_in(&mut second, body)
        .await;
    assert!(refused.is_err());
    let timeout = sqlx::query_scalar("PRAGMA busy_timeout");
    let timeout: i64 = timeout.fetch_one(&mut *second).await.unwrap();
    assert_eq!(timeout, 7777);
}

#[tokio::test]
async fn a_row_of_a_transaction_is_listed_and_found_by_its_digits() {
    let (pool, (handle, _)) = (pool::<Sqlite>().await, handle());
    assert_eq!(pay_and_commit(&handle, &pool, 1).await.unwrap(), 1);
    let operator = handle_on(&pool);
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = operator.list("", after.as_ref(), 1).await.unwrap().unwrap();
        rows.extend(page.records);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let [row] = &rows[..] else {
        panic!("there is one row: {rows:?}");
    };
    assert!(row.in_tx());
    let found = operator.peek_digits(row.endpoint(), &row.digits()).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.len(), 1);
    assert!(operator.forget(&found[0]).await.unwrap());
}
