//! What only SQLite does.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, process};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

type Db = sqlx::Sqlite;
type Connection = sqlx::SqliteConnection;
type Tx = sqlx::Transaction<'static, Db>;

/// What a duplicate of a call is told whose transaction is open for too long: who has the file open for writing is not
/// to be seen.
const STILL_OPEN: &str = "store_unavailable";

async fn pool() -> sqlx::SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(file())
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Off);
    let pool = SqlitePoolOptions::new()
        .max_connections(50)
        .connect_with(options)
        .await
        .unwrap();
    idempotent_runtime::sql::migrate(&pool).await.unwrap();
    let table = "CREATE TABLE payment (order_no BIGINT NOT NULL)";
    sqlx::raw_sql(table).execute(&pool).await.unwrap();
    pool
}

/// A path where no file is, in a folder of the build that goes with it.
fn file() -> PathBuf {
    static FILES: AtomicUsize = AtomicUsize::new(0);

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sql_tx");
    fs::create_dir_all(&folder).unwrap();
    let name = format!("{}-{}", process::id(), FILES.fetch_add(1, Ordering::SeqCst));
    let path = folder.join(name);
    // That of an earlier process with the same id.
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", path.display()));
    }
    path
}

async fn begin(pool: &sqlx::SqlitePool) -> sqlx::Result<Tx> {
    pool.begin().await
}

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
