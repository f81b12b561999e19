use idempotence::integrations::axum::IdempotencyKey;
use idempotence::{Error, idempotent};

#[idempotent(key = "user_id, idempotency_key", ttl = "1d")]
async fn pay(user_id: u64, idempotency_key: Option<IdempotencyKey>) -> Result<(), Error> {
    Ok(())
}

fn main() {}
