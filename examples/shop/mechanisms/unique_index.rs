//! A unique index on the number of the order. The payment is in the transaction of the insert.

use std::error::Error;

use idempotence::Once;
use idempotence::sql::{self, Insertion, Retry};
use idempotence::store::async_trait;

use super::{BuyError, Connection, Mechanism, Order, Receipt, Shop};

pub(crate) struct UniqueIndex(Shop);

#[async_trait]
impl Mechanism for UniqueIndex {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let policy = Retry::when_nothing_was_done();
        sql::retry(&self.0.pool, policy, |tx| Box::pin(self.place(tx, order))).await
    }
}

impl UniqueIndex {
    async fn place(&self, tx: &mut Connection, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let bank = &self.0.bank;
        let row = sql::insert_once("orders").key("no", &order.page);
        match row.set("cents", order.cents).run(tx).await? {
            Insertion::Inserted(()) => bank.charge_in(tx, order).await.map(Once::Executed),
            Insertion::AlreadyThere(()) => bank.find_in(tx, order).await.map(Once::Replayed),
        }
    }
}
