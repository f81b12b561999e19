//! deadpool-postgres, whose transaction derefs to the one of tokio-postgres.

use std::marker::PhantomData;
use std::ops::DerefMut;

use deadpool_postgres::{Client, Manager, Pool, Transaction};
use idempotence::Idempotency;
use idempotence::sql::DeadpoolTransaction;
use tokio_postgres::{Error, NoTls};

use crate::setting::Trouble;
use crate::tokio_postgres as plain;

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

fn driver<'a, 'b>(tx: &'a mut Tx<'b>) -> &'a mut tokio_postgres::Transaction<'b> {
    tx
}

async fn pay(
    handle: &Idempotency,
    tx: &mut Tx<'_>,
    order: u32,
    receipt: u32,
) -> Result<u32, Trouble<Error>> {
    plain::pay(handle, tx, order, receipt).await
}

async fn commit(tx: Tx<'_>) -> Result<(), Error> {
    tx.commit().await
}

async fn rollback(tx: Tx<'_>) {
    tx.rollback().await.unwrap();
}

use plain::send_in;

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
