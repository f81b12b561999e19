//! Each page has an id, and one click: the counter refuses all others.

use std::error::Error;
use std::time::Duration;

use idempotence::store::async_trait;
use idempotence::{Counter, Once};

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct PageCounter {
    shop: Shop,
    clicks: Counter,
}

#[async_trait]
impl Mechanism for PageCounter {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let window = Duration::from_mins(10);
        let clicks = shop.idempotency.counter("shop.clicks", 1, window)?;
        Ok(Self { shop, clicks })
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        self.clicks.attempt(&order.page).await?;
        self.shop.bank.charge(order.cents).await
    }
}
