use idempotence::{Error, idempotent};

#[idempotent(key = "user_id", tll = "30s", relese = true, color = "red")]
async fn upload(user_id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
