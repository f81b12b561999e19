//! The page gets the number of the order before there is an order. The number is the primary key, so there is one order.

use std::error::Error;

use idempotence::sql::{self, Insertion, Retry};
use idempotence::store::async_trait;
use idempotence::{Once, OrderNumbers, Placed};

use super::{BuyError, Connection, Mechanism, Order, Receipt, Shop};

pub(crate) struct OrderNumber {
    shop: Shop,
    numbers: OrderNumbers,
}

#[async_trait]
impl Mechanism for OrderNumber {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let secret = "a secret that all processes share";
        let numbers = OrderNumbers::new(&shop.idempotency, "shop.orders", secret).await?;
        Ok(Self { shop, numbers })
    }

    async fn open_page(&self, user: u64, _request_id: String) -> Result<String, BuyError> {
        Ok(self.numbers.issue(&user)?.as_str().to_owned())
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let pool = &self.shop.pool;
        let insert = async |number, _hint| {
            let policy = Retry::when_nothing_was_done();
            sql::retry(pool, policy, |tx| Box::pin(self.place(tx, number, order))).await
        };
        let placed = self.numbers.redeem(&order.page, &order.user, insert);
        match placed.await? {
            Placed::New(receipt) => Ok(Once::Executed(receipt)),
            Placed::Again => {
                let mut connection = pool.acquire().await?;
                let found = self.shop.bank.find_in(&mut connection, order).await;
                found.map(Once::Replayed)
            }
        }
    }
}

impl OrderNumber {
    async fn place(
        &self,
        tx: &mut Connection,
        number: i64,
        order: &Order,
    ) -> Result<Placed<Receipt>, BuyError> {
        let row = sql::insert_once("orders").key("no", number.to_string());
        match row.set("cents", order.cents).run(tx).await? {
            Insertion::Inserted(()) => self.shop.bank.charge_in(tx, order).await.map(Placed::New),
            Insertion::AlreadyThere(()) => Ok(Placed::Again),
        }
    }
}
