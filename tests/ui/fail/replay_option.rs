use idempotence::{Error, idempotent};

struct Receipt(u64);

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn unserializable(id: u64) -> Result<Receipt, Error> {
    Ok(Receipt(id))
}

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn generic<T>(id: u64, value: T) -> Result<T, Error> {
    Ok(value)
}

fn main() {}
