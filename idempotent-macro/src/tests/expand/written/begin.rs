use idempotence::Error;
use idempotence::sql::sqlx::{Error as SqlError, SqlitePool};

#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    Refused(#[from] Error),
    #[error(transparent)]
    Database(#[from] SqlError),
}

#[idempotent(key = "order_no", ttl = "7d", begin = pool, tx = tx, replay = true)]
pub async fn pay(pool: &SqlitePool, order_no: String, _permit: u64) -> Result<String, Trouble> {
    let _ = &*tx;
    Ok(order_no)
}

#[idempotent(key = "order_no", ttl = "7d", begin = pool, tx = tx, retry = false)]
pub async fn pay_once(pool: &SqlitePool, order_no: String) -> Result<String, Trouble> {
    let _ = &*tx;
    Ok(order_no)
}
