//! A Bloom filter spares the look-up of new orders. It decides nothing: the unique index does.

use std::error::Error;
use std::time::Duration;

use idempotence::Once;
use idempotence::sql::{self, Insertion, Retry};
use idempotence::store::async_trait;

use super::{BuyError, Connection, Mechanism, Order, Receipt, Shop};

pub(crate) struct Bloom {
    shop: Shop,
    filter: idempotence::Bloom,
}

#[async_trait]
impl Mechanism for Bloom {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let day = Duration::from_hours(24);
        let filter = shop.idempotency.bloom("shop.orders", 10_000, 0.01, day)?;
        Ok(Self { shop, filter })
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let pool = &self.shop.pool;
        let look_up = async {
            let row = sqlx::query("SELECT 1 FROM orders WHERE no = $1").bind(&order.page);
            Ok(row.fetch_optional(pool).await?.is_some())
        };
        let policy = Retry::when_nothing_was_done();
        let insert = sql::retry(pool, policy, |tx| Box::pin(self.place(tx, order)));
        let placed = self.filter.first_time(&order.page, look_up, insert).await?;
        if let Some(receipt) = placed {
            return Ok(Once::Executed(receipt));
        }
        let mut connection = pool.acquire().await?;
        let found = self.shop.bank.find_in(&mut connection, order).await;
        found.map(Once::Replayed)
    }
}

impl Bloom {
    async fn place(&self, tx: &mut Connection, order: &Order) -> Result<Option<Receipt>, BuyError> {
        let row = sql::insert_once("orders").key("no", &order.page);
        match row.set("cents", order.cents).run(tx).await? {
            Insertion::Inserted(()) => self.shop.bank.charge_in(tx, order).await.map(Some),
            Insertion::AlreadyThere(()) => Ok(None),
        }
    }
}
