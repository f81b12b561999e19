use idempotence::{Error, idempotent};

struct Request {
    id: u64,
}

#[idempotent(key = "&id", ttl = "30s")]
async fn borrowed(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id, &request.id", ttl = "30s")]
async fn borrowed_field(id: u64, request: Request) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "_", ttl = "30s")]
async fn unnamed(_: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (id, _), ttl = "30s")]
async fn unnamed_part(id: u64, _: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", payload = _, ttl = "30s")]
async fn unnamed_payload(id: u64, _: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "*id", ttl = "30s")]
async fn dereferenced(id: &u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
