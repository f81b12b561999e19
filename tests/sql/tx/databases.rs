//! What differs between the databases, and the table of payments.

use idempotent_runtime::Idempotency;

use idempotent_sql::{SqlStore, sql};
use sqlx::{AssertSqlSafe, Executor as _, MySql, Pool, Postgres, Sqlite, Transaction};

use crate::tx::{MAX_WAIT, Trouble, paying};
use support::blocked::Blocked;
use support::databases::Kind;
use support::patient::patient;

pub(crate) type Tx<DB> = Transaction<'static, DB>;

pub(crate) trait Subject: Blocked {
    /// The code of a duplicate of a call whose transaction stays open for too long.
    const STILL_OPEN: &'static str = "in_progress";
}

impl Subject for Postgres {}

impl Subject for MySql {}

impl Subject for Sqlite {
    /// SQLite does not show who has locked the file.
    const STILL_OPEN: &'static str = "store_unavailable";
}

/// The number that this statement returns.
pub(crate) async fn number<DB: Kind>(pool: &Pool<DB>, statement: &'static str) -> i64 {
    let number = sqlx::query_scalar(statement);
    number.fetch_one(pool).await.unwrap()
}

pub(crate) async fn pool<DB: Kind>() -> Pool<DB> {
    pool_at(&DB::url()).await
}

/// Connections to the new database at `url`. Makes the tables.
pub(crate) async fn pool_at<DB: Kind>(url: &str) -> Pool<DB> {
    let pool = DB::pool(url, &[]).await;
    sql::migrate(&pool).await.unwrap();
    pool.execute("CREATE TABLE payment (order_no BIGINT NOT NULL)")
        .await
        .unwrap();
    pool
}

/// The work: inserts a row for a payment. The table would accept a second row.
pub(crate) async fn insert<C>(tx: &mut C, order: u32) -> sqlx::Result<()>
where
    C: sql::AsConnection<Database: Kind>,
{
    let insert = format!("INSERT INTO payment (order_no) VALUES ({order})");
    let insert = tx.as_connection().execute(AssertSqlSafe(insert));
    insert.await.map(drop)
}

pub(crate) async fn payments<DB: Kind>(pool: &Pool<DB>) -> i64 {
    number(pool, "SELECT count(*) FROM payment").await
}

pub(crate) async fn rows<DB: Kind>(pool: &Pool<DB>) -> i64 {
    number(pool, "SELECT count(*) FROM idempotence").await
}

/// Pays order 7 and returns this receipt.
pub(crate) async fn pay<DB: Kind>(
    handle: &Idempotency,
    tx: &mut Tx<DB>,
    receipt: u32,
) -> Result<u32, Trouble> {
    paying(handle, 7)
        .replay()
        // On a slow machine an open transaction may last longer than the five seconds that a call waits by default.
        .wait(MAX_WAIT)
        .run_in(tx, async |tx: &mut DB::Connection| {
            insert(tx, 7).await?;
            Ok(receipt)
        })
        .await
}

/// Does the same in its own transaction, and commits a success.
pub(crate) async fn pay_and_commit<DB: Kind>(
    handle: &Idempotency,
    pool: &Pool<DB>,
    receipt: u32,
) -> Result<u32, Trouble> {
    let mut tx = pool.begin().await?;
    let receipt = pay(handle, &mut tx, receipt).await?;
    tx.commit().await?;
    Ok(receipt)
}

/// A handle whose store uses the table of the dedup rows.
pub(crate) fn handle_on<DB: Kind>(pool: &Pool<DB>) -> Idempotency {
    patient(SqlStore::new(pool.clone()))
}
