use idempotence::Error;

/// The attributes of a function stay.
#[idempotent(key = "user_id, file_md5", ttl = "30s", release = true)]
pub async fn upload(user_id: u64, file_md5: String, file: Vec<u8>) -> Result<usize, Error> {
    tokio::task::yield_now().await;
    if file.is_empty() {
        return Ok(0);
    }
    Ok(file.len() + file_md5.len())
}
