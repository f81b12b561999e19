use idempotence::Error;

#[idempotent(name = "exports.run", key = "tenant", permits = 3, ttl = "30s", release = true)]
pub async fn export(tenant: u64) -> Result<u64, Error> {
    Ok(tenant)
}

#[idempotent(key = "tenant", permits = most, ttl = "30s", release = true)]
pub async fn within(tenant: u64, most: u32) -> Result<u64, Error> {
    Ok(tenant)
}
