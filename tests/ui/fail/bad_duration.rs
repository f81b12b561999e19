use std::time::Duration;

use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30 sec")]
async fn unit(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = 30, lease = -1, renew = 1.5)]
async fn number(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30", lease = true, wait = "1.5h")]
async fn no_unit(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "0s")]
async fn zero(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "36501d")]
async fn too_long(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = id)]
async fn argument(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = Duration::from_secs(3), renew = id.to_string())]
async fn expression(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", wait = "0s")]
async fn zero_wait(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", wait = 2)]
async fn number_wait(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", name = "orders.pay", wait = id)]
async fn argument_wait(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
