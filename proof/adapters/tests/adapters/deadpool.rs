//! deadpool-postgres.

use std::marker::PhantomData;
use std::ops::DerefMut;
use std::time::Duration;

use deadpool_postgres::{Client, Manager, Pool, Transaction};
use futures_util::future::join_all;
use idempotence::sql::{DeadpoolTransaction, Retry};
use idempotence::{Idempotency, idempotent};
use idempotence_test_servers::{PgBouncer, PostgresServer};
use tokio_postgres::{Error, NoTls};

use crate::setting::{Database, Trouble};

#[path = "begun.rs"]
#[allow(clippy::duplicate_mod)]
mod begun;
#[path = "suite_on_postgres.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type DB = sqlx::Postgres;
type LibraryError = Error;
type Tx<'a> = Transaction<'a>;

const POOL_ROUND_TRIPS: usize = 0;

struct Session(Client);

async fn open_pool(url: &str, size: usize) -> Pool {
    let manager = Manager::new(url.parse().unwrap(), NoTls);
    Pool::builder(manager).max_size(size).build().unwrap()
}

async fn send_begun(tx: &mut DeadpoolTransaction<Manager>, statement: &str) -> Result<(), Error> {
    tx.batch_execute(statement).await
}

impl Session {
    async fn connect(url: &str) -> Result<Self, deadpool_postgres::PoolError> {
        Ok(Self(open_pool(url, 1).await.get().await?))
    }

    async fn begin(&mut self) -> Result<Tx<'_>, Error> {
        self.0.transaction().await
    }
}

fn driver<'a, 'b>(tx: &'a mut Tx<'b>) -> &'a mut Tx<'b> {
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

async fn send_in(tx: &mut Tx<'_>, statement: &str) -> Result<(), Error> {
    tx.batch_execute(statement).await
}

async fn text(tx: &mut Tx<'_>, statement: &str) -> String {
    tx.query_one(statement, &[]).await.unwrap().get(0)
}

trait Mutable {
    fn derefs_mutably(&self) -> bool {
        true
    }
}

impl<T: DerefMut> Mutable for PhantomData<T> {}

/// The compiler takes this one only if the other does not fit.
trait Shared {
    fn derefs_mutably(&self) -> bool {
        false
    }
}

impl<T> Shared for &PhantomData<T> {}

/// `transaction` of the client would begin no savepoint: its end would commit or roll back the row of the call.
#[test]
fn the_body_cannot_call_the_methods_of_the_client_that_begin_a_transaction() {
    let client = &PhantomData::<Client>;
    assert!(client.derefs_mutably());
    let begun = &PhantomData::<DeadpoolTransaction<Manager>>;
    assert!(!begun.derefs_mutably());
}

/// The statements that a connection of the pool has prepared.
const PREPARED: &str = "SELECT string_agg(statement, '; ') FROM pg_prepared_statements";

#[tokio::test]
async fn the_row_uses_the_prepared_statements_of_the_pool() {
    let database = Database::<DB>::new().await;
    let pool = open_pool(&database.url, 1).await;
    let mut client = pool.get().await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    pay(&database.handle, &tx, 7, 1).await.unwrap();
    let prepared = text(&mut tx, PREPARED).await;
    assert!(prepared.contains("INSERT INTO idempotence"), "{prepared}");
    tx.commit().await.unwrap();
    // So does the one that the guard begins. Its own pool has prepared nothing before.
    let pool = open_pool(&database.url, 1).await;
    let body = async |tx: &mut DeadpoolTransaction<Manager>| {
        Ok::<_, BeginError>(tx.statement_cache.size())
    };
    let call = database.paying(8).replay();
    let prepared = call.run_in_new(&pool, Retry::with_row(), body).await;
    assert!(prepared.unwrap() > 0);
}

#[tokio::test]
async fn a_session_without_its_prepared_statements_refuses_only_one_call() {
    let database = Database::<DB>::new().await;
    let pool = open_pool(&database.url, 1).await;
    let call = async |order: u32| {
        let body = async |_: &mut DeadpoolTransaction<Manager>| Ok::<(), BeginError>(());
        let retry = Retry::with_row().tries(1);
        database.paying(order).run_in_new(&pool, retry, body).await
    };
    call(1).await.unwrap();
    let client = pool.get().await.unwrap();
    client.batch_execute("DEALLOCATE ALL").await.unwrap();
    drop(client);
    call(2).await.unwrap_err();
    call(3).await.unwrap();
}

/// Before version 1.21 it does not follow prepared statements from one session to another.
#[tokio::test]
async fn pgbouncer_from_version_1_21_on_may_share_sessions() {
    if PgBouncer::version().unwrap() < (1, 21) {
        return;
    }
    let database = Database::<DB>::new().await;
    let server = PostgresServer::shared().unwrap();
    let pooler = PgBouncer::start(server, "transaction").unwrap();
    let pool = open_pool(&pooler.url(&database.url), 3).await;
    let calls = (0..30).map(async |call: u32| {
        let order = call % 15;
        let body = async |tx: &mut DeadpoolTransaction<Manager>| {
            let insert = format!("INSERT INTO payment VALUES ({order})");
            send_begun(tx, &insert).await?;
            Ok::<_, BeginError>(order)
        };
        let call = database.paying(order).replay();
        let paid = call.run_in_new(&pool, Retry::with_row(), body).await;
        assert_eq!(paid.unwrap(), order);
    });
    join_all(calls).await;
    assert_eq!(database.payments().await, 15);
}

#[derive(Debug, thiserror::Error)]
enum BeginError {
    #[error("refused")]
    Guard(#[from] idempotence::Error),
    #[error("the statement failed")]
    Library(#[from] Error),
}

#[tokio::test]
async fn a_server_that_does_not_run_is_not_a_lost_connection() {
    // Nothing listens on this port.
    let url = "postgres://postgres@127.0.0.1:1/shop";
    let pool = open_pool(url, 1).await;
    let handle = Idempotency::new(idempotence::MemoryStore::new());
    let body = async |_: &mut DeadpoolTransaction<Manager>| Ok::<(), BeginError>(());
    let retry = Retry::with_row().tries(1);
    let call = handle
        .call("orders.pay")
        .key(&7)
        .ttl(Duration::from_hours(1));
    let refused = call.run_in_new(&pool, retry, body);
    let BeginError::Guard(refused) = refused.await.unwrap_err() else {
        panic!("the guard must report the database");
    };
    let text = refused.to_string();
    assert!(
        text.contains("refused the connection (is the server running?)"),
        "{text}"
    );
}
