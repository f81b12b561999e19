//! The page makes a request id, and keeps it for all tries. Duplicates wait, and get the first receipt.

use std::error::Error;

use idempotence::store::async_trait;
use idempotence::{Once, idempotent};

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct Replay(Shop);

#[async_trait]
impl Mechanism for Replay {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    #[idempotent(
        name = "shop.buy",
        key = "order.user, order.page",
        payload = "order.cents", // the same id with another amount is a mistake
        ttl = "24h",
        lease = self.0.lease,
        replay = true,
        wait = "5s",
        context = cx,
        using = self.0.idempotency
    )]
    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        // After a crash the body runs again, with the same key for the bank.
        let key = cx.downstream_key("bank.charge");
        self.0.bank.charge_once(order.cents, &key).await
    }
}
