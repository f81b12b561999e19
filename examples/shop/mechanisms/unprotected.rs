//! Nothing guards the payment: every click pays.

use std::error::Error;

use idempotence::Once;
use idempotence::store::async_trait;

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct Unprotected(Shop);

#[async_trait]
impl Mechanism for Unprotected {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        self.0.bank.charge(order.cents).await
    }
}
