//! A connection of sqlx, in the version that the module above names `library`.

use super::library::postgres::PgPoolOptions;
use super::library::{
    Connection as _, Error, Executor as _, PgConnection, PgPool as Pool, Postgres, Transaction,
    query_scalar,
};
use super::statement;
use crate::setting::Trouble;
use idempotence::{Idempotency, idempotent};

#[path = "begun.rs"]
#[allow(clippy::duplicate_mod)]
mod begun;
#[path = "suite_on_postgres.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Postgres;
type LibraryError = Error;
type Tx<'a> = Transaction<'a, Postgres>;

/// The pool pings a connection that returns.
const POOL_ROUND_TRIPS: usize = 1;

struct Session(PgConnection);

impl Session {
    async fn connect(url: &str) -> Result<Self, Error> {
        PgConnection::connect(url).await.map(Self)
    }

    async fn begin(&mut self) -> Result<Tx<'_>, Error> {
        self.0.begin().await
    }
}

async fn open_pool(url: &str, size: u32) -> Pool {
    let options = PgPoolOptions::new().test_before_acquire(false);
    options.max_connections(size).connect_lazy(url).unwrap()
}

use send_in as send_begun;

fn driver<'a, 'b>(tx: &'a mut Tx<'b>) -> &'a mut Tx<'b> {
    tx
}

#[idempotent(
    name = "orders.pay", using = handle, key = order, ttl = "1h", wait = "1m", replay = true, tx = tx
)]
async fn pay(
    handle: &Idempotency,
    tx: &mut Tx<'_>,
    order: u32,
    receipt: u32,
) -> Result<u32, Trouble<Error>> {
    let insert = format!("INSERT INTO payment VALUES ({order})");
    let inserted = send_in(tx, &insert).await;
    inserted.map_err(Trouble::Library)?;
    Ok(receipt)
}

async fn commit(tx: Tx<'_>) -> Result<(), Error> {
    tx.commit().await
}

async fn rollback(tx: Tx<'_>) {
    tx.rollback().await.unwrap();
}

async fn send_in(tx: &mut PgConnection, statement: &str) -> Result<(), Error> {
    tx.execute(self::statement(statement)).await.map(drop)
}

async fn text(tx: &mut Tx<'_>, statement: &str) -> String {
    let text = query_scalar(self::statement(statement));
    text.fetch_one(&mut **tx).await.unwrap()
}
