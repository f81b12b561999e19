//! SeaORM, on each database.

use idempotence::{Idempotency, idempotent};
use sea_orm::{
    ConnectionTrait as _, Database as Connector, DatabaseConnection as Pool, DatabaseTransaction,
    DbErr, Statement, TransactionTrait as _,
};

use crate::setting::Trouble;

mod mariadb;
mod postgres;
mod sqlite;

type LibraryError = DbErr;
type Tx<'a> = DatabaseTransaction;

/// The pool of sqlx pings a connection that returns.
const POOL_ROUND_TRIPS: usize = 1;

struct Session(Pool);

impl Session {
    async fn connect(url: &str) -> Result<Self, DbErr> {
        let pool = open_pool(url, 1).await;
        pool.ping().await?;
        Ok(Self(pool))
    }

    async fn begin(&mut self) -> Result<Tx<'_>, DbErr> {
        self.0.begin().await
    }
}

async fn open_pool(url: &str, size: u32) -> Pool {
    let mut options = sea_orm::ConnectOptions::new(url);
    // The pool would replace a connection that is lost.
    options.max_connections(size).test_before_acquire(false);
    // The guard opens the first connection.
    options.connect_lazy(true);
    Connector::connect(options).await.unwrap()
}

use send_in as send_begun;

fn driver(tx: &mut DatabaseTransaction) -> &mut DatabaseTransaction {
    tx
}

#[idempotent(
    name = "orders.pay", using = handle, key = order, ttl = "1h", wait = "1m", replay = true, tx = tx
)]
async fn pay(
    handle: &Idempotency,
    tx: &DatabaseTransaction,
    order: u32,
    receipt: u32,
) -> Result<u32, Trouble<DbErr>> {
    let insert = format!("INSERT INTO payment VALUES ({order})");
    let inserted = tx.execute_unprepared(&insert).await;
    inserted.map_err(Trouble::Library)?;
    Ok(receipt)
}

async fn commit(tx: DatabaseTransaction) -> Result<(), DbErr> {
    tx.commit().await
}

async fn rollback(tx: DatabaseTransaction) {
    tx.rollback().await.unwrap();
}

async fn send_in(tx: &mut DatabaseTransaction, statement: &str) -> Result<(), DbErr> {
    tx.execute_unprepared(statement).await.map(drop)
}

async fn text(tx: &mut DatabaseTransaction, statement: &str) -> String {
    let statement = Statement::from_string(tx.get_database_backend(), statement);
    let row = tx.query_one_raw(statement).await.unwrap();
    row.unwrap().try_get_by_index(0).unwrap()
}
