use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", replay = true, wait = "2s", payload = "note")]
async fn upload(id: u64, note: String) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", tx = tx, token = true, replay_err = true)]
async fn pay(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
