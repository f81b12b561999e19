use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s")]
async fn tail(id: u64) -> Result<String, Error> {
    let text: String = id;
    Ok(text)
}

#[idempotent(key = "id", ttl = "30s")]
async fn early(id: u64) -> Result<u64, Error> {
    if id == 0 {
        return "none";
    }
    Ok(id)
}

#[idempotent(key = "id", ttl = "30s")]
async fn semicolon(id: u64) -> Result<u64, Error> {
    Ok::<_, Error>(id);
}

#[idempotent(key = "id", ttl = "30s")]
async fn question_mark(id: u64) -> Result<u64, Error> {
    let number = "1".parse::<u64>()?;
    Ok(id + number)
}

#[idempotent(key = "id", ttl = "30s")]
async fn hidden(id: u64) -> Result<u64, Error> {
    Ok(held)
}

fn main() {}
