//! The same with the attribute: the key is a row in the transaction of the payment.

use std::sync::LazyLock;

use idempotence::sql::{self, Retry};
use idempotence::{Idempotency, MemoryStore, idempotent};
use sqlx::{PgConnection, PgPool};

use crate::payment::{Failure, Order, pay};

/// Its prefix is used. Its store is not, because the key is a row.
static HANDLE: LazyLock<Idempotency> = LazyLock::new(|| Idempotency::new(MemoryStore::new()));

#[idempotent(
    name = "payment",
    key = "order.user, order.key",
    payload = "order.cents",
    ttl = "7d",
    replay = true,
    wait = "30s",
    tx = tx,
    using = &*HANDLE
)]
async fn pay_in(tx: &mut PgConnection, order: &Order) -> Result<i64, Failure> {
    Ok(pay(tx, order).await?)
}

/// Pays once for each key.
///
/// # Errors
///
/// If the database does not answer, no connection of the pool becomes free, or the guard refuses the call.
pub async fn pay_once(pool: &PgPool, order: &Order) -> Result<i64, Failure> {
    sql::retry(pool, Retry::with_row(), |tx| Box::pin(pay_in(tx, order))).await
}
