use idempotence::{Error, idempotent};

#[idempotent(key = true, ttl = "30s")]
async fn flag(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = 5, ttl = "30s")]
async fn number(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "\"x\"", ttl = "30s")]
async fn text(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = ("orders", -1), ttl = "30s")]
async fn several(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", payload = 1)]
async fn payload(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (id, "orders", 1), ttl = "30s")]
async fn among_others(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
