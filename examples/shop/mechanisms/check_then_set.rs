//! A mistake: ask whether the order is paid, pay it, and note that it is paid. Two clicks ask before one of them has noted it.

use std::error::Error;
use std::time::Duration;

use idempotence::Once;
use idempotence::store::{Bytes, Store as _, async_trait};

use super::{BuyError, Mechanism, Order, Receipt, Shop};

pub(crate) struct CheckThenSet(Shop);

#[async_trait]
impl Mechanism for CheckThenSet {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self(shop))
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let key = format!("paid:{}", order.page);
        if self.0.store.get(&key).await?.is_some() {
            return Err(BuyError::Duplicate);
        }
        // The second click is here, too, because the first click has not noted anything yet.
        let receipt = self.0.bank.charge(order.cents).await?;
        let (paid, day) = (Bytes::from_static(b"paid"), Duration::from_hours(24));
        self.0.store.claim(&key, &paid, day).await?;
        Ok(receipt)
    }
}
