use idempotence::{Error, idempotent};

const NAME: &str = "orders.pay";

#[idempotent(key = "id", ttl = "30s", name = "orders pay")]
async fn space(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", name = "")]
async fn empty(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", name = NAME)]
async fn constant(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", name = "bezahlen.für")]
async fn not_ascii(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(
    key = "id",
    ttl = "30s",
    name = "a_name_that_says_more_than_anybody_wants_to_read_in_a_key_of_a_store_and_in_every_line_of_a_log_and_in_every_chart_of_every_dashboard"
)]
async fn long(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
