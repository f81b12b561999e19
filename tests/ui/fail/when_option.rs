use idempotence::{Error, RequestId, idempotent};

#[idempotent(key = "request_id", ttl = "1d", when = request_id)]
async fn not_bool(request_id: Option<RequestId>) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "request_id", ttl = "1d", when = "request_id.is_some()")]
async fn quoted(request_id: Option<RequestId>) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "request_id", ttl = "1d", when = false)]
async fn never(request_id: Option<RequestId>) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "request_id", ttl = "1d", when = request_di.is_some())]
async fn misspelt(request_id: Option<RequestId>) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "token, user_id", name = "orders.submit", ttl = "1d", when = user_id > 0)]
async fn with_a_token(user_id: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

fn main() {}
