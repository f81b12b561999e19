//! The same with the attribute: the key is a row in the transaction of the payment.

use std::sync::LazyLock;
use std::time::Duration;

use idempotence::{Idempotency, MemoryStore, idempotent};
use sqlx::PgPool;

use crate::payment::{Failure, Order, pay};

/// Its store is not used, because the key is a row. Its deadline is as long as sqlx waits for a connection.
static HANDLE: LazyLock<Idempotency> = LazyLock::new(|| {
    let builder = Idempotency::builder(MemoryStore::new());
    let handle = builder.deadline(Duration::from_secs(30)).build();
    handle.expect("the deadline is allowed")
});

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
