use idempotence::{Error, idempotent};

#[idempotent("user_id, file_md5")]
async fn text(user_id: u64, file_md5: String) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key: "user_id", ttl = "30s")]
async fn colon(user_id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "user_id; file_md5", ttl = "30s")]
async fn semicolon(user_id: u64, file_md5: String) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "{user_id}", ttl = "30s")]
async fn braces(user_id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = user_id, file_md5, ttl = "30s")]
async fn no_quotes(user_id: u64, file_md5: String) -> Result<(), Error> {
    Ok(())
}

fn main() {}
