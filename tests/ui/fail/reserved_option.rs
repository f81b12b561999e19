use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", token = true)]
async fn pay(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
