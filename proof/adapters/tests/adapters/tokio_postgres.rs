//! tokio-postgres.

use idempotence::{Idempotency, idempotent};
use tokio_postgres::{Client, Error, NoTls, Transaction};

use crate::setting::Trouble;

#[path = "suite_on_postgres.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Postgres;
type LibraryError = Error;
type Tx<'a> = Transaction<'a>;

struct Session(Client);

impl Session {
    async fn connect(url: &str) -> Result<Self, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self(client))
    }

    async fn begin(&mut self) -> Result<Tx<'_>, Error> {
        self.0.transaction().await
    }
}

fn driver<'a, 'b>(tx: &'a mut Tx<'b>) -> &'a mut Transaction<'b> {
    tx
}

#[idempotent(
    name = "orders.pay", using = handle, key = order, ttl = "1h", wait = "1m", replay = true, tx = tx
)]
pub(crate) async fn pay(
    handle: &Idempotency,
    tx: &Transaction<'_>,
    order: u32,
    receipt: u32,
) -> Result<u32, Trouble<Error>> {
    let insert = format!("INSERT INTO payment VALUES ({order})");
    let inserted = tx.batch_execute(&insert).await;
    inserted.map_err(Trouble::Library)?;
    Ok(receipt)
}

async fn commit(tx: Tx<'_>) -> Result<(), Error> {
    tx.commit().await
}

async fn rollback(tx: Tx<'_>) {
    tx.rollback().await.unwrap();
}

pub(crate) async fn send_in(tx: &mut Transaction<'_>, statement: &str) -> Result<(), Error> {
    tx.batch_execute(statement).await
}

async fn text(tx: &mut Tx<'_>, statement: &str) -> String {
    tx.query_one(statement, &[]).await.unwrap().get(0)
}
