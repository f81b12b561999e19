//! What only SQLite does.

type Db = sqlx::Sqlite;
type Connection = sqlx::SqliteConnection;

/// What a duplicate of a call is told whose transaction is open for too long: who has the file open for writing is not
/// to be seen.
const STILL_OPEN: &str = "store_unavailable";

/// Nobody can see who waits for the file.
async fn somebody_waits(_: &sqlx::SqlitePool) {
    tokio::task::yield_now().await;
}

every_database!();

#[tokio::test]
async fn a_snapshot_that_is_too_old_to_see_the_winner_is_to_be_run_again() {
    let (pool, (handle, _)) = (pool().await, handle());
    let mut older = begin(&pool).await.unwrap();
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
async fn the_callers_own_busy_timeout_comes_back() {
    let (pool, (handle, _)) = (pool().await, handle());
    let mut first = begin(&pool).await.unwrap();
    pay(&handle, &mut first, 1).await.unwrap();
    let mut second = begin(&pool).await.unwrap();
    second.execute("PRAGMA busy_timeout = 7777").await.unwrap();
    let body = async |_: &mut Connection| Ok::<_, Trouble>(());
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
