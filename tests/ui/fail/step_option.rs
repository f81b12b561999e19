use idempotence::sql::sqlx::{Postgres, Transaction};
use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", release = true, context = cx)]
async fn a_second_intent(id: u64) -> Result<u64, Error> {
    cx.step("charge", async || Ok(id)).await
}

#[idempotent(key = "id", ttl = "30s", tx = tx, context = cx)]
async fn in_a_transaction(tx: &mut Transaction<'_, Postgres>, id: u64) -> Result<u64, Error> {
    let _ = tx;
    cx.step("charge", async || Ok(id)).await
}

#[idempotent(key = "id", ttl = "30s", release = false, context = cx)]
async fn at_most_once(id: u64) -> Result<u64, Error> {
    let both = async { (cx.step("charge", async || Ok::<_, Error>(id)).await, id) };
    both.await.0
}

fn main() {}
