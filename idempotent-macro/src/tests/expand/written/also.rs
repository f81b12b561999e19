use idempotence::Error;

#[idempotent(key = "tenant, from", also = ["tenant, to", "tenant, fees"], ttl = "30s", release = true)]
pub async fn transfer(tenant: &str, from: u64, to: u64, fees: u64) -> Result<u64, Error> {
    Ok(from + to + fees)
}
