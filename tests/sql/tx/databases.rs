//! What differs between the databases, and the table of payments.

use std::time::Duration;

use idempotent_runtime::{Idempotency, SqlStore, sql};
use sqlx::{AssertSqlSafe, Executor as _, MySql, Pool, Postgres, Sqlite, Transaction};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::tx::{MAX_WAIT, Trouble, paying};
use support::databases::Kind;

pub(crate) type Tx<DB> = Transaction<'static, DB>;

pub(crate) trait Subject: Kind {
    /// The code of a duplicate of a call whose transaction stays open for too long.
    const STILL_OPEN: &'static str = "in_progress";

    /// Returns once this many statements of the database wait for a lock.
    fn wait_for(pool: &Pool<Self>, most: i64) -> impl Future<Output = ()> + Send;

    /// Returns once a statement of the database waits for a lock.
    fn wait_for_a_waiter(pool: &Pool<Self>) -> impl Future<Output = ()> + Send {
        Self::wait_for(pool, 1)
    }
}

impl Subject for Postgres {
    async fn wait_for(pool: &Pool<Self>, most: i64) {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = async { while number(pool, waiting).await < most {} };
        timeout(MAX_WAIT, waiting).await.unwrap();
    }
}

impl Subject for MySql {
    async fn wait_for(pool: &Pool<Self>, most: i64) {
        /// The server refreshes its answer only after 100 ms without a query.
        static TURN: Mutex<()> = Mutex::const_new(());

        let waiting = "SELECT count(*) FROM information_schema.innodb_trx \
                       JOIN information_schema.processlist ON id = trx_mysql_thread_id \
                       WHERE trx_state = 'LOCK WAIT' AND db = DATABASE()";
        let waiting = async {
            loop {
                let _turn = TURN.lock().await;
                tokio::time::sleep(Duration::from_millis(120)).await;
                if number(pool, waiting).await >= most {
                    break;
                }
            }
        };
        timeout(MAX_WAIT, waiting).await.unwrap();
    }
}

impl Subject for Sqlite {
    /// SQLite does not show who has locked the file.
    const STILL_OPEN: &'static str = "store_unavailable";

    /// SQLite does not show which transactions wait for the file. The tests are right whether or not one waits.
    async fn wait_for(_: &Pool<Self>, _: i64) {
        tokio::task::yield_now().await;
    }
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
    Idempotency::new(SqlStore::new(pool.clone()))
}
