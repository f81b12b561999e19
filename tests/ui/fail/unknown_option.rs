use idempotence::{Error, idempotent};

#[idempotent(key = "user_id", tll = "30s", relese = true)]
async fn upload(user_id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
