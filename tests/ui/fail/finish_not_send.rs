use std::rc::Rc;

use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", on_cancel = "finish")]
async fn pay(id: u64) -> Result<(), Error> {
    let amount = Rc::new(id);
    tokio::task::yield_now().await;
    drop(amount);
    Ok(())
}

fn main() {}
