use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;
use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", on_cancel = "finish")]
async fn reference(id: &str) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", on_cancel = "finish")]
async fn lifetime(id: Cow<'_, str>) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", on_cancel = "finish")]
fn by_hand(id: Option<&u64>) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + '_>> {
    Box::pin(async { Ok(()) })
}

struct Service;

impl Service {
    #[idempotent(key = "id", ttl = "30s", on_cancel = "finish")]
    async fn method(&self, id: u64) -> Result<(), Error> {
        Ok(())
    }
}

#[async_trait]
trait Pay {
    async fn pay(&self, id: u64) -> Result<(), Error>;
}

#[async_trait]
impl Pay for Service {
    #[idempotent(key = "id", ttl = "30s", on_cancel = "finish")]
    async fn pay(&self, id: u64) -> Result<(), Error> {
        Ok(())
    }
}

#[idempotent(key = "id", ttl = "30s", on_cancel = "finish")]
async fn owned(id: u64, name: &'static str, then: fn(&str), or: Box<dyn Fn(&u8) + Send>) -> Result<(), Error> {
    drop(or);
    Ok(then(name))
}

fn main() {}
