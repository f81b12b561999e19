//! Lock, check, update: a lock with an owner and a lease. Its fence lets the bank refuse a holder that lost the lock.

use std::error::Error;

use idempotence::Once;
use idempotence::sql::Lock;
use idempotence::store::async_trait;

use super::{BuyError, Db, Mechanism, Order, Receipt, Shop};

pub(crate) struct FencedLock {
    shop: Shop,
    lock: Lock<Db>,
}

#[async_trait]
impl Mechanism for FencedLock {
    async fn start(shop: Shop) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let lock = Lock::new(shop.pool.clone());
        Ok(Self { shop, lock })
    }

    async fn buy(&self, order: &Order) -> Result<Once<Receipt>, BuyError> {
        let held = self.lock.take(&order.page, self.shop.lease).await?;
        let held = held.ok_or(BuyError::Duplicate)?;
        let bought = self.buy_locked(order, held.fence()).await;
        held.release().await?; // only its owner can release it
        bought
    }
}

impl FencedLock {
    async fn buy_locked(&self, order: &Order, fence: i64) -> Result<Once<Receipt>, BuyError> {
        let check = sqlx::query_as("SELECT receipt, cents FROM orders WHERE no = $1");
        let check = check.bind(&order.page);
        if let Some((number, cents)) = check.fetch_optional(&self.shop.pool).await? {
            return Ok(Once::Replayed(Receipt { number, cents }));
        }
        let paid = self.shop.bank.charge_fenced(order.cents, fence).await?;
        // After a crash here the money is taken, and the next holder does not know.
        sqlx::query("INSERT INTO orders (no, cents, receipt) VALUES ($1, $2, $3)")
            .bind(&order.page)
            .bind(order.cents)
            .bind(paid.get().number)
            .execute(&self.shop.pool)
            .await?;
        Ok(paid)
    }
}
