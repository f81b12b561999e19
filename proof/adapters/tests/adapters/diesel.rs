//! diesel-async.

use diesel::result::Error;
use diesel::sql_types::Text;
use diesel::{ConnectionError, QueryableByName, sql_query};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _,
    SimpleAsyncConnection as _, TransactionManager as _,
};
use idempotence::{Idempotency, idempotent};

use crate::setting::{Database, Trouble};

#[path = "suite.rs"]
#[allow(clippy::duplicate_mod)]
mod suite;

type LibraryError = Error;
type Tx<'a> = &'a mut AsyncPgConnection;
const ROUND_TRIPS: [usize; 4] = [2, 1, 2, 2];

struct Session(AsyncPgConnection);

impl Session {
    async fn connect(url: &str) -> Result<Self, ConnectionError> {
        AsyncPgConnection::establish(url).await.map(Self)
    }

    async fn begin(&mut self) -> Result<Tx<'_>, Error> {
        AnsiTransactionManager::begin_transaction(&mut self.0).await?;
        Ok(&mut self.0)
    }
}

fn driver<'a>(tx: &'a mut Tx<'_>) -> &'a mut AsyncPgConnection {
    tx
}

#[idempotent(name = "orders.pay", using = handle, key = order, ttl = "1h", replay = true, tx = tx)]
async fn pay(
    handle: &Idempotency,
    tx: &mut AsyncPgConnection,
    order: u32,
    receipt: u32,
) -> Result<u32, Trouble<Error>> {
    let insert = format!("INSERT INTO payment VALUES ({order})");
    let inserted = tx.batch_execute(&insert).await;
    inserted.map_err(Trouble::Library)?;
    Ok(receipt)
}

async fn commit(tx: Tx<'_>) -> Result<(), Error> {
    AnsiTransactionManager::commit_transaction(tx).await
}

async fn rollback(tx: Tx<'_>) {
    AnsiTransactionManager::rollback_transaction(tx)
        .await
        .unwrap();
}

async fn send(tx: &mut Tx<'_>, statement: &str) -> Result<(), Error> {
    tx.batch_execute(statement).await
}

async fn send_in(tx: &mut AsyncPgConnection, statement: &str) -> Result<(), Error> {
    tx.batch_execute(statement).await
}

#[derive(QueryableByName)]
struct Shown {
    #[diesel(sql_type = Text)]
    lock_timeout: String,
}

async fn text(tx: &mut Tx<'_>, statement: &str) -> String {
    let shown: Shown = sql_query(statement).get_result(&mut **tx).await.unwrap();
    shown.lock_timeout
}

#[tokio::test]
async fn a_connection_outside_of_a_transaction_is_refused() {
    let database = Database::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let refused = pay(&database.handle, &mut session.0, 7, 1).await;
    let refused = refused.unwrap_err().refusal();
    assert!(matches!(refused, idempotence::Error::Misconfigured(_)));
    assert_eq!(database.payments().await, 0);
}
