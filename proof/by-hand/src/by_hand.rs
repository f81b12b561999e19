//! The usual design: in a transaction insert the key; if it was new, work and save the answer; else read the saved answer.

use sqlx::PgPool;

use crate::payment::{Failure, Order, pay};

/// The table of keys.
pub const SCHEMA: &str = "CREATE TABLE idempotency (
    owner bigint NOT NULL, order_key text NOT NULL, answer bigint, PRIMARY KEY (owner, order_key))";

/// Pays once for each key.
///
/// # Errors
///
/// If the database does not answer, or no connection of the pool becomes free.
pub async fn pay_once(pool: &PgPool, order: &Order) -> Result<i64, Failure> {
    let mut tx = pool.begin().await?;
    let insert =
        "INSERT INTO idempotency (owner, order_key) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    let insert = sqlx::query(insert).bind(order.user).bind(&order.key);
    let is_new = insert.execute(&mut *tx).await?.rows_affected() > 0;
    if is_new {
        let receipt = pay(&mut tx, order).await?;
        let save = "UPDATE idempotency SET answer = $3 WHERE owner = $1 AND order_key = $2";
        let save = sqlx::query(save).bind(order.user).bind(&order.key);
        save.bind(receipt).execute(&mut *tx).await?;
        tx.commit().await?;
        return Ok(receipt);
    }
    // The mistake: this needs a second connection, while `tx` still has the first one.
    let saved = "SELECT answer FROM idempotency WHERE owner = $1 AND order_key = $2";
    let saved = sqlx::query_scalar(saved).bind(order.user).bind(&order.key);
    Ok(saved.fetch_one(pool).await?)
}
