//! The key, the payment and the receipt are committed together, or not at all.

use std::error::Error;

use idempotence::store::async_trait;
use idempotence::{Once, idempotent};

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct DedupRow(Shop);

#[async_trait]
impl Mechanism for DedupRow {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    #[idempotent(
        name = "shop.buy",
        key = "order.user, order.page",
        payload = "order.cents",
        ttl = "7d",
        replay = true,
        begin = self.0.pool,
        tx = tx, // the transaction that the guard began
        using = self.0.idempotency
    )]
    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let receipt = self.0.bank.charge_in(tx, order).await?;
        Ok(Once::Executed(receipt))
    }
}
