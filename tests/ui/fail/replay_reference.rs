use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn text(id: u64) -> Result<&'static str, Error> {
    Ok("paid")
}

#[idempotent(key = "id", ttl = "1d", replay = true)]
async fn bytes(id: u64) -> Result<&'static [u8], Error> {
    Ok(b"paid")
}

fn main() {}
