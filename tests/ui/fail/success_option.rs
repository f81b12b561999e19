use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", success = |outcome| matches!(outcome, Ok(sum) if *sum > least))]
async fn capturing(id: u64, least: u64) -> Result<u64, Error> {
    Ok(id + least)
}

#[idempotent(key = "id", ttl = "30s", success = true)]
async fn value(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "30s", success = |outcome| outcome.as_ref().ok())]
async fn wrong_type(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
