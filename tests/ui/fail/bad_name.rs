use idempotence::{Error, idempotent};

const NAME: &str = "orders.pay";

#[idempotent(key = "id", ttl = "30s", name = "orders pay")]
async fn space(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", name = "")]
async fn empty(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", name = NAME)]
async fn constant(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", name = "bezahlen.für")]
async fn not_ascii(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
