//! A call that is made of steps. The result of each step is kept, so a run after a crash or an error repeats no step that has ended.

use std::error::Error;

use idempotence::store::async_trait;
use idempotence::{Once, idempotent};

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct Steps(Shop);

#[async_trait]
impl Mechanism for Steps {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    #[idempotent(
        name = "shop.buy",
        key = "order.user, order.page",
        payload = "order.cents",
        ttl = "24h",
        lease = self.0.lease,
        replay = true,
        wait = "5s",
        context = cx,
        using = self.0.idempotency
    )]
    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let charge = cx.step("charge", async || {
            // The process can die before the step is kept. So the bank gets the same key in each run.
            let key = cx.step_key("charge");
            let paid = self.0.bank.charge_once(order.cents, &key).await?;
            Ok::<_, BuyError>(paid.into_inner())
        });
        charge.await.map(Once::Executed) // further steps would follow here
    }
}
