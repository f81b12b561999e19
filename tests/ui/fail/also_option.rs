use idempotence::{Error, idempotent};

#[idempotent(key = "from", also = "to", ttl = "30s")]
async fn not_released(from: u64, to: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = "two", ttl = "30s", release = true)]
async fn misspelt(from: u64, to: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = to, fee, ttl = "30s", release = true)]
async fn without_brackets(from: u64, to: u64, fee: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = [], ttl = "30s", release = true)]
async fn empty(from: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = (7), ttl = "30s", release = true)]
async fn constant(from: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = "to", ttl = "30s", tx = tx)]
async fn in_a_transaction(tx: &mut (), from: u64, to: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = "to", ttl = "30s", release = true, token = "token, from", name = "transfer")]
async fn with_a_token(from: u64, to: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = "to", ttl = "30s", release = true, fence = true, context = cx)]
async fn with_a_fence(from: u64, to: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = "to", ttl = "30s", release = true, replay = true)]
async fn with_replay(from: u64, to: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = "to", ttl = "30s", release = true, on_store_error = "run")]
async fn without_the_store(from: u64, to: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant, from", also = "to", ttl = "30s", release = true)]
async fn with_fewer_parts(tenant: String, from: u64, to: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "from", also = ["to", (tenant, to)], ttl = "30s", release = true)]
async fn with_more_parts(tenant: String, from: u64, to: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
