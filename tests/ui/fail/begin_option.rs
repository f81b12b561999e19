use idempotence::sql::sqlx::{self, PgPool};
use idempotence::{Error, idempotent};

#[derive(Debug, thiserror::Error)]
enum PayError {
    #[error(transparent)]
    Refused(#[from] Error),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Not `Clone`.
struct Upload;

#[idempotent(key = "order_no", ttl = "7d", begin = pool, tx = tx)]
async fn moved(pool: &PgPool, order_no: u64, file: Upload) -> Result<(), PayError> {
    drop((tx, file));
    Ok(())
}

#[idempotent(key = "order_no", ttl = "7d", begin = pool, tx = tx)]
async fn no_conversion(pool: &PgPool, order_no: u64) -> Result<(), Error> {
    drop(tx);
    Ok(())
}

#[idempotent(key = "order_no", ttl = "7d", begin = order_no, tx = tx)]
async fn no_pool(order_no: u64) -> Result<(), PayError> {
    drop(tx);
    Ok(())
}

#[idempotent(key = "order_no", ttl = "7d", begin = "pool", tx = tx)]
async fn text(pool: &PgPool, order_no: u64) -> Result<(), PayError> {
    Ok(())
}

#[idempotent(key = "order_no", ttl = "7d", begin = pool)]
async fn no_name(pool: &PgPool, order_no: u64) -> Result<(), PayError> {
    Ok(())
}

#[idempotent(key = "order_no", ttl = "7d", retry = false)]
async fn nothing_to_retry(order_no: u64) -> Result<(), PayError> {
    Ok(())
}

#[idempotent(key = "order_no", ttl = "7d", begin = pool, tx = order_no)]
async fn an_argument(pool: &PgPool, order_no: u64) -> Result<(), PayError> {
    Ok(())
}

#[idempotent(key = "order_no", ttl = "7d", replay = true, replay_err = |_| true, begin = pool, tx = tx)]
async fn stored_errors(pool: &PgPool, order_no: u64) -> Result<(), PayError> {
    Ok(())
}

struct Shop(PgPool);

impl Shop {
    #[idempotent(key = "order_no", ttl = "7d", begin = self.0, tx = tx)]
    async fn by_value(self, order_no: u64) -> Result<(), PayError> {
        drop(self);
        Ok(())
    }
}

fn main() {}
