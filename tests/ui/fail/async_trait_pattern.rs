use async_trait::async_trait;
use idempotence::{Error, idempotent};

#[async_trait]
trait Service {
    async fn upload(&self, pair: (u64, u64)) -> Result<(), Error>;
}

struct Uploads;

#[async_trait]
impl Service for Uploads {
    #[idempotent(key = "a", ttl = "30s")]
    async fn upload(&self, (a, b): (u64, u64)) -> Result<(), Error> {
        drop((a, b));
        Ok(())
    }
}

fn main() {}
