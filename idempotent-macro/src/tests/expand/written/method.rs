use idempotence::Error;

pub struct Service {
    pub tenant: String,
}

impl Service {
    #[idempotent(key = "self.tenant, id", ttl = "1h30m")]
    pub async fn pay(&self, id: u64) -> Result<u64, Error> {
        Ok(id)
    }

    #[idempotent(key = tenant, ttl = "1d", release = false)]
    pub async fn open(tenant: String) -> Result<Self, Error> {
        Ok(Self { tenant })
    }

    #[idempotent(key = (), ttl = "1m", name = "service.sweep", lease = "5s", renew = "10m")]
    pub async fn sweep() -> Result<(), Error> {
        Ok(())
    }
}
