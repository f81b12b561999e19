use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", on_duplicate = |duplicate| duplicate.age())]
async fn wrong_type(id: u64) -> Result<u64, Error> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "30s", on_duplicate = Ok(0))]
async fn value(id: u64) -> Result<u64, Error> {
    Ok(id)
}

fn main() {}
