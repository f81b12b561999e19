use idempotence::{Error, idempotent};

#[idempotent(key = "id", ttl = "30s", release = true, lease = "10s")]
async fn lease_and_true(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", lease = "10s", release = false)]
async fn lease_and_false(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "1h", lease = "1m", renew = "30s")]
async fn renew_shorter_than_lease(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "1h", release = true, renew = "30m")]
async fn renew_shorter_than_ttl(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "1h", renew = "29s")]
async fn renew_shorter_than_the_default(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", release = true, replay = true)]
async fn replay_with_release(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", replay_err = |error| error.is_duplicate())]
async fn replay_err_without_replay(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "30s", replay = false, replay_err = Error::is_duplicate)]
async fn replay_err_and_false(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "10s", at_least = "11s")]
async fn at_least_longer_than_the_ttl(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "1h", lease = "20s", at_least = "21s")]
async fn at_least_longer_than_the_lease(id: u64) -> Result<(), Error> {
    Ok(())
}

#[idempotent(key = "id", ttl = "1h", at_least = "1m")]
async fn at_least_makes_the_default_lease_longer(id: u64) -> Result<(), Error> {
    Ok(())
}

fn main() {}
