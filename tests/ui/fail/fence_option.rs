use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", fence = true)]
async fn without_a_context(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", fence = "yes", context = cx)]
async fn quoted(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", fence = true, context = cx, tx = tx)]
async fn in_a_transaction(tx: &mut (), id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", context = cx)]
async fn without_the_option(id: u64) -> Result<i64, Error> {
    Ok(cx.fence())
}

fn main() {}
