//! tokio-postgres.

use futures_util::future::join_all;
use idempotence::{Idempotency, idempotent};
use idempotence_test_servers::{PgBouncer, PostgresServer};
use tokio_postgres::{Client, Error, NoTls, Transaction};

use crate::setting::{Database, Trouble};

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
async fn pay(
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

async fn send_in(tx: &mut Transaction<'_>, statement: &str) -> Result<(), Error> {
    tx.batch_execute(statement).await
}

async fn text(tx: &mut Tx<'_>, statement: &str) -> String {
    tx.query_one(statement, &[]).await.unwrap().get(0)
}

/// Before version 1.21 it does not follow prepared statements from one session to another.
#[tokio::test]
async fn every_version_of_pgbouncer_may_share_sessions() {
    let database = Database::<DB>::new().await;
    let server = PostgresServer::shared().unwrap();
    let pooler = PgBouncer::start(server, "transaction").unwrap();
    let url = pooler.url(&database.url);
    let clients = (1..=3).map(async |client: u32| {
        let mut session = Session::connect(&url).await.unwrap();
        for round in 1..=5 {
            // The first call pays, the second finds the row.
            for receipt in 1..=2 {
                let tx = session.begin().await.unwrap();
                let paid = pay(&database.handle, &tx, 10 * client + round, receipt).await;
                assert_eq!(paid.unwrap(), 1);
                commit(tx).await.unwrap();
            }
        }
    });
    join_all(clients).await;
    assert_eq!(database.payments().await, 15);
}
