use std::future::{Future, ready};
use std::pin::Pin;

use idempotence::Error;

#[idempotent(key = "id", ttl = "30s")]
pub fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>> {
    if id == 0 {
        return Box::pin(ready(Ok(0)));
    }
    Box::pin(async move { Ok(id) })
}

#[idempotent(key = "id", ttl = "30s")]
pub fn unboxed(id: &u64) -> impl Future<Output = Result<u64, Error>> + Send {
    let id = *id;
    async move { Ok(id) }
}
