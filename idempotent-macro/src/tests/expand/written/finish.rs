use std::future::Future;
use std::sync::Arc;

use idempotence::Error;

pub struct Service {
    pub tenant: String,
}

impl Service {
    #[idempotent(key = "self.tenant, id", ttl = "30s", on_cancel = "finish")]
    pub async fn pay(self: Arc<Self>, id: u64) -> Result<u64, Error> {
        Ok(id)
    }
}

#[idempotent(key = "id", ttl = "30s", on_cancel = "finish")]
pub fn pay(id: u64) -> impl Future<Output = Result<u64, Error>> + Send {
    async move { Ok(id) }
}

#[idempotent(key = "id", ttl = "30s", replay = true, on_cancel = "finish")]
pub async fn replayed(id: u64) -> Result<u64, Error> {
    Ok(id)
}
