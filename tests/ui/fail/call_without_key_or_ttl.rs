use std::time::Duration;

use idempotence::{Error, Idempotency};

async fn without_key(idempotency: &Idempotency) -> Result<(), Error> {
    let call = idempotency.call("orders.pay").ttl(Duration::from_secs(60));
    call.run(async { Ok(()) }).await
}

async fn without_ttl(idempotency: &Idempotency) -> Result<(), Error> {
    let call = idempotency.call("orders.pay").key(&42);
    call.run_to_end(async { Ok(()) }).await
}

fn main() {}
