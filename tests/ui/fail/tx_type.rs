use idempotence::{Error, idempotent};

struct Transaction;

#[idempotent(key = "id", ttl = "30s", tx = tx)]
async fn pay(tx: &mut Transaction, id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
