use idempotence::{Error, RequestId, idempotent};

struct Order {
    request_id: Option<RequestId>,
}

#[idempotent(key = "user_id, request_id", ttl = "1d")]
async fn argument(user_id: u64, request_id: Option<RequestId>) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "order.request_id", ttl = "1d")]
async fn field(order: &Order) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "request_id", ttl = "1d")]
async fn reference(request_id: &Option<RequestId>) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (request_id.as_ref()), ttl = "1d")]
async fn option_of_a_reference(request_id: Option<RequestId>) -> Result<(), Error> {
    Ok(())
}

fn main() {}
