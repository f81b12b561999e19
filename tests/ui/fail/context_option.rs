use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", context = "cx")]
async fn quoted(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", context = true)]
async fn no_name(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", context = self)]
async fn reserved(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", context = id)]
async fn an_argument(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", release = true, context = cx)]
async fn a_second_intent(id: u64) -> Result<String, Error> {
    Ok(cx.downstream_key("bank.charge"))
}

fn main() {}
