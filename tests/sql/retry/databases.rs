//! What differs between the databases, and the tables of payments and accounts.

use std::time::Duration;

use idempotent_sql::sql::{self, AsConnection, Retry};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Executor as _, MySql, Pool, Postgres, Sqlite, SqlitePool,
    Transaction,
};

use crate::retry::{MAX_WAIT, Trouble, paying};
use support::databases::{Fresh, Kind};

pub(crate) trait Subject: Kind {
    /// An error with which the database asks for a retry of the transaction.
    fn conflict(
        pool: &Pool<Self>,
        tx: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Error> + Send;
}

/// A database with a network connection.
pub(crate) trait Server: Subject {
    /// Ends the session of the transaction.
    fn kill(pool: &Pool<Self>, tx: &mut Transaction<'_, Self>) -> impl Future<Output = ()> + Send;
}

impl Subject for Postgres {
    async fn conflict(_: &Pool<Self>, tx: &mut Self::Connection) -> sqlx::Error {
        let raise = "DO $$ BEGIN RAISE EXCEPTION 'on purpose' \
                     USING ERRCODE = 'serialization_failure'; END $$";
        tx.execute(raise).await.unwrap_err()
    }
}

impl Server for Postgres {
    async fn kill(pool: &Pool<Self>, tx: &mut Transaction<'_, Self>) {
        let session = sqlx::query_scalar("SELECT pg_backend_pid()");
        let session: i32 = session.fetch_one(&mut **tx).await.unwrap();
        let kill = sqlx::query("SELECT pg_terminate_backend($1, 10000)").bind(session);
        kill.execute(pool).await.unwrap();
    }
}

impl Subject for MySql {
    async fn conflict(_: &Pool<Self>, tx: &mut Self::Connection) -> sqlx::Error {
        let signal = "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'on purpose'";
        tx.execute(signal).await.unwrap_err()
    }
}

impl Server for MySql {
    async fn kill(pool: &Pool<Self>, tx: &mut Transaction<'_, Self>) {
        let session = sqlx::query_scalar("SELECT CONNECTION_ID()");
        let session: u64 = session.fetch_one(&mut **tx).await.unwrap();
        let kill = format!("KILL {session}");
        pool.execute(AssertSqlSafe(kill)).await.unwrap();
    }
}

impl Subject for Sqlite {
    /// The error that another writer gets while the transaction is open.
    async fn conflict(pool: &SqlitePool, _: &mut Self::Connection) -> sqlx::Error {
        let mut other = impatient(pool).connect().await.unwrap();
        other.execute("BEGIN IMMEDIATE").await.unwrap_err()
    }
}

/// The options of connections that do not wait for the file.
pub(crate) fn impatient(pool: &SqlitePool) -> SqliteConnectOptions {
    (*pool.connect_options())
        .clone()
        .busy_timeout(Duration::ZERO)
}

pub(crate) async fn fresh<DB: Kind>() -> Fresh<DB> {
    let fresh = Fresh::<DB>::new().await;
    sql::migrate(&fresh.pool).await.unwrap();
    // The table has no unique index, so it would accept a second payment.
    for statement in [
        "CREATE TABLE payment (order_no BIGINT NOT NULL)",
        "CREATE TABLE account (id INT PRIMARY KEY, cents INT NOT NULL)",
        "INSERT INTO account VALUES (1, 1000), (2, 1000)",
    ] {
        fresh.pool.execute(statement).await.unwrap();
    }
    fresh
}

pub(crate) async fn insert<C>(tx: &mut C, order: u32) -> sqlx::Result<()>
where
    C: AsConnection<Database: Kind>,
{
    let insert = format!("INSERT INTO payment (order_no) VALUES ({order})");
    let insert = tx.as_connection().execute(AssertSqlSafe(insert));
    insert.await.map(drop)
}

/// Pays once, with the dedup row.
pub(crate) async fn pay<DB: Kind>(
    tx: &mut Transaction<'_, DB>,
    order: u32,
) -> Result<u32, Trouble> {
    paying(order)
        .replay()
        // A server may notice a closed connection late.
        .wait(MAX_WAIT)
        .run_in(tx, async |tx: &mut DB::Connection| {
            insert(tx, order).await?;
            Ok(order)
        })
        .await
}

pub(crate) async fn payments<DB: Kind>(pool: &Pool<DB>, order: u32) -> i64 {
    let count = format!("SELECT count(*) FROM payment WHERE order_no = {order}");
    let count = sqlx::query_scalar(AssertSqlSafe(count));
    count.fetch_one(pool).await.unwrap()
}

pub(crate) fn quickly() -> Retry {
    Retry::when_nothing_was_done().pauses(Duration::from_millis(1), Duration::from_millis(5))
}
