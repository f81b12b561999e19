use idempotence::{Error, RequestId};

#[idempotent(key = (user_id, request_id), ttl = "1d", replay = true, when = request_id.is_some())]
pub async fn place(user_id: u64, request_id: Option<RequestId>) -> Result<u64, Error> {
    Ok(user_id)
}
