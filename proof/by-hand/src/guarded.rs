//! The same with the attribute: the key is a row in the transaction of the payment.

use std::sync::LazyLock;

use idempotence::{Idempotency, MemoryStore, idempotent};
use sqlx::PgPool;

use crate::payment::{Failure, Order, pay};

/// Its prefix is used. Its store is not, because the key is a row.
static HANDLE: LazyLock<Idempotency> = LazyLock::new(|| Idempotency::new(MemoryStore::new()));

/// Pays once for each key. The guard begins the transaction `tx` on the pool, and commits it.
///
/// # Errors
///
/// If the database does not answer, no connection of the pool becomes free, or the guard refuses the call.
#[idempotent(
    name = "payment",
    key = "order.user, order.key",
    payload = "order.cents",
    ttl = "7d",
    replay = true,
    wait = "30s",
    begin = pool,
    tx = tx,
    using = &*HANDLE
)]
pub async fn pay_once(pool: &PgPool, order: &Order) -> Result<i64, Failure> {
    Ok(pay(tx, order).await?)
}
