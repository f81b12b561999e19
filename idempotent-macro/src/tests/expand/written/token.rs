use idempotence::Error;

pub struct Form {
    token: String,
    note: String,
}

#[idempotent(
    token = "form.token, user_id",
    operation = "orders.submit",
    ttl = "10m",
    replay = true,
)]
pub async fn submit(user_id: u64, form: Form) -> Result<String, Error> {
    Ok(format!("{user_id}: {}", form.note))
}

#[idempotent(
    name = "orders.pay",
    key = "order_no",
    token = (token.trim(), tenant, user_id),
    give_back = true,
    ttl = "1d",
)]
pub async fn pay(tenant: &str, user_id: u64, order_no: u64, token: &str) -> Result<(), Error> {
    Ok(())
}
