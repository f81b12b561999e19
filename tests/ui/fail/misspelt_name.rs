use idempotence::{Error, idempotent};

#[idempotent(key = "user_id, fil_md5", ttl = "30s")]
async fn string(user_id: u64, file_md5: String) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (user_id, fil_md5.len()), ttl = "30s")]
async fn tokens(user_id: u64, file_md5: String) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", ttl = "30s")]
async fn nothing_close(user_id: u64, file_md5: String) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "self.id", ttl = "30s")]
async fn no_self(user_id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = id, ttl = "30s")]
async fn no_arguments() -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "user_id", ttl = "30s", payload = "amuont, currency")]
async fn payload(user_id: u64, amount: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = (), ttl = "30s", payload = amount)]
async fn payload_without_arguments() -> Result<(), Error> {
    Ok(())
}

fn main() {}
