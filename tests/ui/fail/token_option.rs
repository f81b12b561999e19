use idempotence::{Error, idempotent};

struct Form {
    token: Vec<u8>,
    owner: Owner,
}

struct Owner;

#[idempotent(token = "form.token, user_id", name = "orders.submit", ttl = "10m")]
async fn not_a_text(user_id: u64, form: Form) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = (token, user_id), operation = "orders.submit", ttl = "10m")]
async fn generic<T>(user_id: u64, token: T) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "token, form.owner", operation = "orders.submit", ttl = "10m")]
async fn not_a_subject(form: Form, token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(token = "token, tenant, form.owner", operation = "orders.submit", ttl = "10m")]
async fn not_a_subject_among_others(tenant: u64, form: Form, token: &str) -> Result<(), Error> {
    Ok(())
}

fn main() {}
