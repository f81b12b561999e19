//! A key of what the request contains, which stays taken after a success: equal requests pay once in 24 hours.

use std::error::Error;

use idempotence::store::async_trait;
use idempotence::{Once, idempotent};

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct FingerprintHeld(Shop);

#[async_trait]
impl Mechanism for FingerprintHeld {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    #[idempotent(
        name = "shop.buy",
        key = "order.user, order.item, order.cents",
        ttl = "24h",
        lease = self.0.lease,
        using = self.0.idempotency
    )]
    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        self.0.bank.charge(order.cents).await
    }
}
