//! The order exists before the click. The click that moves it from `NEW` to `PAID` pays, in the same transaction.

use std::error::Error;

use idempotence::Once;
use idempotence::sql::{self, Retry};
use idempotence::store::async_trait;

use super::{BuyError, Connection, Mechanism, Order, Receipt, Shop};

pub(crate) struct Transition(Shop);

#[async_trait]
impl Mechanism for Transition {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    async fn open_page(&self, _user: u64, request_id: String) -> Result<String, BuyError> {
        sqlx::query("INSERT INTO orders (no, status) VALUES ($1, 'NEW')")
            .bind(&request_id)
            .execute(&self.0.pool)
            .await?;
        Ok(request_id)
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let policy = Retry::when_nothing_was_done();
        sql::retry(&self.0.pool, policy, |tx| Box::pin(self.pay(tx, order))).await
    }
}

impl Transition {
    async fn pay(&self, tx: &mut Connection, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let paid = sql::transition("orders")
            .id("no", &order.page)
            .from(["NEW".to_owned()])
            .to("PAID".to_owned())
            .run(&mut *tx)
            .await?;
        let bank = &self.0.bank;
        match paid {
            sql::Transition::Applied => bank.charge_in(tx, order).await.map(Once::Executed),
            sql::Transition::AlreadyThere => bank.find_in(tx, order).await.map(Once::Replayed),
            sql::Transition::Illegal { .. } | sql::Transition::NotFound => {
                Err(BuyError::NotForSale)
            }
        }
    }
}
