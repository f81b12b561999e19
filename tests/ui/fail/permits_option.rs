use idempotence::{Error, idempotent};

#[idempotent(key = "tenant", permits = 3, ttl = "30s")]
async fn not_released(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = false)]
async fn never_released(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 0, ttl = "30s", release = true)]
async fn none(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 101, ttl = "30s", release = true)]
async fn too_many(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = "3", ttl = "30s", release = true)]
async fn in_quotes(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = tenant, ttl = "30s", release = true)]
async fn of_another_type(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", tx = tx)]
async fn in_a_transaction(tx: &mut (), tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = true, replay = true)]
async fn with_replay(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = true, also = "other")]
async fn with_a_further_key(tenant: u64, other: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = true, on_duplicate = |_| Ok(()))]
async fn with_an_answer_to_duplicates(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = true, settle = "background")]
async fn in_the_background(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = true, payload = "file")]
async fn with_a_payload(tenant: u64, file: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = true, token = "token, tenant", name = "export")]
async fn with_a_token(tenant: u64, token: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = true, fence = true, context = cx)]
async fn with_a_fence(tenant: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "tenant", permits = 3, ttl = "30s", release = true, context = cx)]
async fn with_a_step(tenant: u64) -> Result<(), Error> {
    cx.step("charge", async || Ok(())).await
}

fn main() {}
