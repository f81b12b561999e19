//! A lock on what the request contains, which the end of the handler releases: of clicks at the same time one pays.

use std::error::Error;

use idempotence::store::async_trait;
use idempotence::{Once, idempotent};

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct FingerprintReleased(Shop);

#[async_trait]
impl Mechanism for FingerprintReleased {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    #[idempotent(
        name = "shop.buy",
        key = "order.user, order.item, order.cents",
        ttl = self.0.lease, // it is renewed while the body runs
        release = true,
        using = self.0.idempotency
    )]
    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        self.0.bank.charge(order.cents).await
    }
}
