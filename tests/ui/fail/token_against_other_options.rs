use idempotence::{Error, idempotent};

#[idempotent(token = "token", name = "orders.submit", ttl = "10m")]
async fn without_a_user(token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "token, user_id", ttl = "10m")]
async fn without_an_operation(user_id: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "tokn, user_id", name = "orders.submit", ttl = "10m")]
async fn misspelt(user_id: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "token, user_id", operation = "orders submit", ttl = "10m")]
async fn bad_operation(user_id: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "token, user_id", operation = "orders.submit", give_back = "yes", ttl = "10m")]
async fn bad_give_back(user_id: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "user_id", operation = "orders.submit", give_back = true, ttl = "10m")]
async fn without_a_token(user_id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "token, user_id", name = "orders.submit", tx = tx, ttl = "10m")]
async fn in_a_transaction(tx: &mut (), user_id: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "token, user_id", name = "orders.submit", release = false, give_back = true, ttl = "10m")]
async fn never_released(user_id: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

fn main() {}
