//! A connection of diesel-async, of the type that the module above names `Connection`.

use diesel::ConnectionError;
use diesel::result::Error;
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod, deadpool,
};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection as _, SimpleAsyncConnection as _,
    TransactionManager as _,
};
use idempotence::{Idempotency, idempotent};

use super::{Connection, DB, PARAMETERS};
use crate::setting::{Database, Trouble};

pub(super) type LibraryError = Error;
pub(super) type Tx<'a> = &'a mut Connection;

pub(super) const POOL_ROUND_TRIPS: usize = 0;

pub(super) struct Session(Connection);

impl Session {
    pub(super) async fn connect(url: &str) -> Result<Self, ConnectionError> {
        let url = format!("{url}{PARAMETERS}");
        Connection::establish(&url).await.map(Self)
    }

    pub(super) async fn begin(&mut self) -> Result<Tx<'_>, Error> {
        AnsiTransactionManager::begin_transaction(&mut self.0).await?;
        Ok(&mut self.0)
    }
}

pub(super) type Pool = deadpool::Pool<Connection>;

pub(super) async fn open_pool(url: &str, size: usize) -> Pool {
    let mut config = ManagerConfig::default();
    config.recycling_method = RecyclingMethod::Fast;
    let url = format!("{url}{PARAMETERS}");
    let manager = AsyncDieselConnectionManager::new_with_config(url, config);
    Pool::builder(manager).max_size(size).build().unwrap()
}

pub(super) fn driver<'a>(tx: &'a mut Tx<'_>) -> &'a mut Connection {
    tx
}

#[idempotent(
    name = "orders.pay", using = handle, key = order, ttl = "1h", wait = "1m", replay = true, tx = tx
)]
pub(super) async fn pay(
    handle: &Idempotency,
    tx: &mut Connection,
    order: u32,
    receipt: u32,
) -> Result<u32, Trouble<Error>> {
    let insert = format!("INSERT INTO payment VALUES ({order})");
    let inserted = tx.batch_execute(&insert).await;
    inserted.map_err(Trouble::Library)?;
    Ok(receipt)
}

pub(super) async fn commit(tx: Tx<'_>) -> Result<(), Error> {
    AnsiTransactionManager::commit_transaction(tx).await
}

pub(super) async fn rollback(tx: Tx<'_>) {
    AnsiTransactionManager::rollback_transaction(tx)
        .await
        .unwrap();
}

pub(super) async fn send_in(tx: &mut Connection, statement: &str) -> Result<(), Error> {
    tx.batch_execute(statement).await
}

#[tokio::test]
async fn a_connection_outside_of_a_transaction_is_refused() {
    let database = Database::<DB>::new().await;
    let mut session = Session::connect(&database.url).await.unwrap();
    let refused = pay(&database.handle, &mut session.0, 7, 1).await;
    let refused = refused.unwrap_err().refusal();
    assert!(matches!(refused, idempotence::Error::Misconfigured(_)));
    assert_eq!(database.payments().await, 0);
}
