use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", using = id)]
async fn number(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "30s", using = handle)]
async fn unknown(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
