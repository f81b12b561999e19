use idempotence::{Error, idempotent};

struct Status(u16);

fn refuse(_: Error) -> Status {
    Status(409)
}

#[idempotent(key = "id", ttl = "30s", error = refuse)]
async fn not_a_result(id: u64) -> u64 {
    id
}

#[idempotent(key = "id", ttl = "30s", error = "conflict")]
async fn text(id: u64) -> Result<u64, Status> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "30s", error = |error| error.code())]
async fn wrong_type(id: u64) -> Result<u64, Status> {
    Ok(id)
}

#[idempotent(key = "id", ttl = "30s", error = |_| Status(code))]
async fn capturing(id: u64, code: u16) -> Result<u64, Status> {
    Ok(id)
}

fn main() {}
