use std::future::Future;
use std::pin::Pin;

use idempotence::Error;

pub struct Service {
    pub tenant: String,
}

pub trait Pay {
    fn pay<'life0, 'async_trait>(
        &'life0 self,
        id: u64,
    ) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait;
}

// The tokens that the attribute of a method gets from `#[async_trait]`.
impl Pay for Service {
    #[idempotent(key = "self.tenant, id", ttl = "30s")]
    fn pay<'life0, 'async_trait>(
        &'life0 self,
        id: u64,
    ) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let __self = self;
            let id = id;
            Ok(id + __self.tenant.len() as u64)
        })
    }
}
