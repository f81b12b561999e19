use std::sync::Arc;
use std::time::Duration;

use idempotence::{Duplicate, Error, Idempotency};

pub struct Status(pub u16);

pub struct Order {
    pub id: u64,
    pub patience: Duration,
}

fn status(error: Error) -> Status {
    Status(if error.is_duplicate() { 409 } else { 503 })
}

#[idempotent(
    key = order.id,
    ttl = order.patience,
    name = "orders.create",
    wait = order.patience,
    renew = order.patience * 10,
    on_cancel = "release",
    on_lease_lost = "continue",
    on_store_error = "run",
    settle = "background",
    on_duplicate = |duplicate: Duplicate| match duplicate.age().as_secs() {
        0 => Ok(order.id),
        _ => Err(Status(409)),
    },
    error = status,
    success = |outcome| !matches!(outcome, Err(Status(500..))),
    using = idempotency,
)]
pub async fn create(idempotency: Arc<Idempotency>, order: Order) -> Result<u64, Status> {
    Ok(order.id)
}
