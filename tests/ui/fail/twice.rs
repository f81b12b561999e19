use idempotence::{Error, idempotent};

#[idempotent(key = "user_id", ttl = "30s")]
#[idempotent(key = "file_md5", ttl = "30s")]
async fn upload(user_id: u64, file_md5: String) -> Result<(), Error> {
    Ok(())
}

fn main() {}
