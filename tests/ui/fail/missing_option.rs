use idempotence::{Error, idempotent};

#[idempotent]
async fn nothing(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "", ttl = "30s")]
async fn empty(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", key = "id", ttl, release = "yes")]
async fn doubled(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id name", ttl = "30s")]
async fn malformed(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id" ttl = "30s")]
async fn comma(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key("id"), ttl = "30s")]
async fn parentheses(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id.get()", ttl = "30s")]
async fn call_in_a_string(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", payload = "")]
async fn empty_payload(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", payload = "id name")]
async fn malformed_payload(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (), ttl = "30s", payload = "id.get()")]
async fn payload_call_in_a_string(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
