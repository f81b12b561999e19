//! The page gets a one-time token, and the click redeems it. Later clicks get the receipt of the first click.

use std::error::Error;
use std::time::Duration;

use idempotence::store::async_trait;
use idempotence::{Once, idempotent};

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct Token(Shop);

#[async_trait]
impl Mechanism for Token {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    async fn open_page(&self, user: u64, _request_id: String) -> Result<String, BuyError> {
        let tokens = self.0.idempotency.tokens();
        let life = Duration::from_mins(10);
        let token = tokens.issue(&user, "shop.buy", life).await?;
        Ok(token.as_str().to_owned())
    }

    #[idempotent(
        name = "shop.buy",
        token = "order.page, order.user",
        payload = "order.cents",
        ttl = "10m",
        lease = self.0.lease,
        replay = true,
        give_back = true, // a bank that took no money leaves the token valid
        using = self.0.idempotency
    )]
    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        self.0.bank.charge(order.cents).await
    }
}
