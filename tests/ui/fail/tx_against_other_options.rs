use idempotence::{Error, idempotent};

struct Transaction;

#[idempotent(key = "id", ttl = "30s", tx = tx, release = true)]
async fn released(tx: &mut Transaction, id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(
    key = "id",
    ttl = "30s",
    tx = tx,
    lease = "10s",
    renew = true,
    on_cancel = "finish",
    on_lease_lost = "stop",
    on_store_error = "run",
    settle = "background",
)]
async fn leased(tx: &mut Transaction, id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
