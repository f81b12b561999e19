use idempotence::Error;

#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub enum PayError {
    Declined,
    Timeout,
    Refused(String),
}

impl From<Error> for PayError {
    fn from(error: Error) -> Self {
        Self::Refused(error.to_string())
    }
}

#[idempotent(
    key = "user_id, order_id",
    ttl = "1d",
    name = "orders.pay",
    payload = "amount, currency",
    replay = true,
    replay_err = |error| matches!(error, PayError::Declined),
    hold_err = |error| matches!(error, PayError::Timeout),
    wait = "2s",
)]
pub async fn pay(
    user_id: u64,
    order_id: u64,
    amount: u64,
    currency: String,
) -> Result<String, PayError> {
    if amount == 0 {
        return Err(PayError::Declined);
    }
    Ok(format!("{user_id} paid {amount} {currency} for {order_id}"))
}
