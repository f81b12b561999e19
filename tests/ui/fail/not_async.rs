use std::future::Future;

use idempotence::{Error, idempotent};

#[idempotent(key = "user_id", ttl = "30s")]
fn upload(user_id: u64) -> Result<(), Error> {
    Ok(())
}

struct Service;

impl Service {
    #[idempotent(key = "user_id", ttl = "30s")]
    pub fn upload(&self, user_id: u64) -> Result<(), Error> {
        Ok(())
    }
}

#[idempotent(key = "user_id", ttl = "30s")]
fn nothing(user_id: u64) {}

#[idempotent(key = "id", ttl = "30s")]
const fn constant(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s")]
extern "C" fn foreign(id: u64) -> Box<dyn Future<Output = Result<(), Error>>> {
    Box::new(std::future::ready(Ok(())))
}

fn main() {
    let _called = upload(1);
}
