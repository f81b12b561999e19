use idempotence::sql::sqlx::PgPool;
use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", tx = pool)]
async fn by_value(pool: PgPool, id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = pool)]
async fn by_reference(pool: &PgPool, id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = pool)]
async fn by_exclusive_reference(pool: &mut PgPool, id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
