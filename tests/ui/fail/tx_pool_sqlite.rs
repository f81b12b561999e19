use idempotence::sql::sqlx::SqlitePool;
use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", tx = pool)]
async fn by_value(pool: SqlitePool, id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = pool)]
async fn by_reference(pool: &SqlitePool, id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = pool)]
async fn by_exclusive_reference(pool: &mut SqlitePool, id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
